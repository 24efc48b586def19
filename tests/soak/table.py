"""Write what `make soak` or `make fuzz` counted as a table of docs/reliability.md.

python tests/soak/table.py soak.jsonl docs/reliability.md soak
"""

import json
import sys
from pathlib import Path

COLUMNS = ("fault", "tried", "noticed", "lost", "wrong")


def table(lines: list[str]) -> str:
    last = {row["fault"]: row for row in map(json.loads, lines)}
    rows = [last[fault] for fault in sorted(last)]
    head = f"| {' | '.join(COLUMNS)} |\n| --- | --: | --: | --: | --: |\n"
    told = [" | ".join([row["fault"], *(f"{row[x]:,}" for x in COLUMNS[1:])]) for row in rows]
    return head + "".join(f"| {line} |\n" for line in told)


def main(counts: Path, page: Path, mark: str) -> None:
    start, end = f"<!-- {mark} -->", f"<!-- /{mark} -->"
    before, _, rest = page.read_text(encoding="utf-8").partition(start)
    _, _, after = rest.partition(end)
    made = table(counts.read_text(encoding="utf-8").splitlines())
    page.write_text(f"{before}{start}\n{made}{end}{after}", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
