// Reader of the pictures that a page with Lockstep's client shows. Its worker imports this file.
//
// A picture counts as displayed when it is drawn. A copy of its samples goes to the page's private file `shown.i420`.

const draw = OffscreenCanvasRenderingContext2D.prototype.drawImage;
let rows = [];
let length = 0;
let keeps = true;
const opened = (async () => {
  const folder = await navigator.storage.getDirectory();
  const file = await folder.getFileHandle('shown.i420', { create: true });
  return file.createSyncAccessHandle();
})();
let copies = Promise.resolve(); // one after another
let samples = new Uint8Array(0);

self.now = () => performance.timeOrigin + performance.now();

OffscreenCanvasRenderingContext2D.prototype.drawImage = function (picture, ...place) {
  draw.call(this, picture, ...place);
  const at = self.now();
  if (keeps && picture instanceof VideoFrame) {
    const frame = picture.clone();
    copies = copies.then(() => keep(frame, at)).catch((error) => rows.push({ error: String(error) }));
  }
};

async function keep(frame, at) {
  const began = performance.now();
  if (samples.length !== frame.allocationSize()) samples = new Uint8Array(frame.allocationSize());
  await frame.copyTo(samples);
  const row = { at, width: frame.codedWidth, height: frame.codedHeight, format: frame.format };
  frame.close();
  (await opened).write(samples, { at: length });
  length += samples.length;
  rows.push({ ...row, cost: performance.now() - began });
}

/** Rows of the pictures since the last call. */
self.take = () => {
  const taken = rows;
  rows = [];
  return taken;
};

/** Ends the file. The call may go on; its further pictures are not kept. */
self.finish = async () => {
  keeps = false;
  await copies;
  (await opened).close();
};
