"""Write what `make soak` counted as the table of docs/reliability.md.

python tests/soak/table.py soak.jsonl docs/reliability.md
"""

import json
import sys
from pathlib import Path

START, END = "<!-- soak -->", "<!-- /soak -->"
COLUMNS = ("fault", "tried", "noticed", "lost", "wrong")


def table(lines: list[str]) -> str:
    last = {row["fault"]: row for row in map(json.loads, lines)}
    rows = [last[fault] for fault in sorted(last)]
    head = f"| {' | '.join(COLUMNS)} |\n| --- | --: | --: | --: | --: |\n"
    told = [" | ".join([row["fault"], *(f"{row[x]:,}" for x in COLUMNS[1:])]) for row in rows]
    return head + "".join(f"| {line} |\n" for line in told)


def main(counts: Path, page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    made = table(counts.read_text(encoding="utf-8").splitlines())
    page.write_text(f"{before}{START}\n{made}{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
