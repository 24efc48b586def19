// What answers instead of a server, apart from the page so that it stays quick: a question comes as
// { id, path, body }, and its answer goes back under the same id.

/** @import { Site, SweepAnswer } from "../types.js" */

import { toText } from "../pack.js";
import { bend, sweep } from "./bend.js";
import { netOf, startFiles } from "./files.js";
import { gif } from "./gif.js";
import { analyse, answers, draw, joined, votesOf } from "./look.js";
import { readPicture } from "./picture.js";
import { unpacked } from "./pixels.js";
import { samplesPage } from "./samples.js";

let site = /** @type {Site} */ (/** @type {unknown} */ (null)); // comes before the first question

/** The main network for 0, then the others in turn. @param {number} number */
const capsnet = (number = 0) => netOf([site.nets.capsnet, ...site.nets.others][number]);
const cnn = async () => (site.nets.cnn ? netOf(site.nets.cnn) : null);

/** Let other questions be answered. */
const pause = () =>
  new Promise((done) => {
    const { port1, port2 } = new MessageChannel(); // timers would wait for some milliseconds
    port1.onmessage = () => {
      port1.close();
      done(null);
    };
    port2.postMessage(null);
  });

/** How to read a picture. @param {URLSearchParams} query */
const howTo = (query) => (query.has("centre") ? "centre" : query.has("as_is") ? "as_is" : "");

/** @type {Record<string, (body: any, query: URLSearchParams) => Promise<unknown>>} */
const QUESTIONS = {
  samples: (_, query) => samplesPage(site.samples, Number(query.get("page"))),
  digits: (_, query) => samplesPage(site.digits, Number(query.get("page"))),
  mistakes: async () => ({ total: 0, mistakes: [] }),
  poses: async () => (await capsnet()).poses,
  analyse: async ({ image, net }) => analyse(await capsnet(net), unpacked(image), 1),
  votes: async ({ image, net }) => votesOf(await capsnet(net), unpacked(image)),
  overlap: async ({ image }) => analyse(await netOf(site.nets.overlap), unpacked(image), 2),
  decode: async ({ pictures, net }) => joined(draw(await capsnet(net), pictures)).buffer,
  animation: async ({ pictures, net, milliseconds = 60 }) => {
    const artist = await capsnet(net);
    return gif(draw(artist, pictures), artist.image_shape, milliseconds);
  },
  warp: async ({ image, warp }) => {
    const [main, other] = await Promise.all([capsnet(), cnn()]);
    const bent = bend(unpacked(image), main.image_shape, warp);
    return { analysis: analyse(main, bent, 1), cnn: other && answers(other, bent) };
  },
  sweep: async ({ image, warp, over }) => {
    const [main, other] = await Promise.all([capsnet(), cnn()]);
    const range = site.bends[/** @type {keyof Site["bends"]} */ (over)];
    const { values, bent } = sweep(unpacked(image), main.image_shape, warp, over, range);
    /** @type {SweepAnswer} */
    const found = { values, capsnet: [], cnn: other && [] };
    for (const pixels of bent) {
      found.capsnet.push(answers(main, pixels));
      if (other) found.cnn?.push(answers(other, pixels));
      await pause(); // a slider that is moved meanwhile does not wait for all of them
    }
    return found;
  },
  picture: async (file, query) => ({
    image: toText(await readPicture(file, site.reading, howTo(query))),
  }),
};

addEventListener("message", async ({ data }) => {
  if (data.site) {
    site = data.site;
    return startFiles(data.address, (name, part) => postMessage({ name, part }));
  }
  const { id, path, body } = data;
  const [name, query] = path.split("?");
  try {
    const answer = await QUESTIONS[name](body, new URLSearchParams(query));
    const transfer = answer instanceof ArrayBuffer ? [answer] : [];
    postMessage({ id, answer }, { transfer });
  } catch (error) {
    postMessage({ id, problem: error instanceof Error ? error.message : String(error) });
  }
});
