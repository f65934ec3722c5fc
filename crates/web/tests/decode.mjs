// Decodes IVF files with the WebAssembly module and prints one MD5 per shown picture, as `lockstep decode --md5` does.
// node decode.mjs MODULE.wasm FILE.ivf...

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';

const [module, ...files] = process.argv.slice(2);
const { instance } = await WebAssembly.instantiate(readFileSync(module), {});
const wasm = instance.exports;

/** Whether a frame is shown (RFC 6386, section 9.1). */
const isShown = (frame) => frame.length === 0 || (frame[0] & 0x10) !== 0;

for (const file of files) {
  const ivf = readFileSync(file);
  wasm.decode_frame(0);
  let isValid = true;
  for (let at = 32; at + 12 <= ivf.length; ) {
    const length = ivf.readUInt32LE(at);
    const frame = ivf.subarray(at + 12, at + 12 + length);
    at += 12 + length;
    const place = wasm.input(length); // the memory may grow
    new Uint8Array(wasm.memory.buffer, place, length).set(frame);
    if (length > 0 && !wasm.decode_frame(length)) {
      isValid = false;
      break;
    }
    if (isShown(frame)) {
      const picture = new Uint8Array(wasm.memory.buffer, wasm.output(), wasm.output_length());
      console.log(createHash('md5').update(picture).digest('hex'));
    }
  }
  if (!isValid) {
    console.error(`${file}: a frame is invalid`);
    process.exitCode = 1;
  }
}
