// Measures the WebAssembly module: processor time per picture of the fastest of several passes over each file.
// node speed.mjs MODULE.wasm FILE...
// An IVF file is decoded. A file NAME-WIDTHxHEIGHT.yuv with I420 pictures is encoded at quantizer 40.

import { readFileSync } from 'node:fs';

const PASSES = 5;
const [module, ...files] = process.argv.slice(2);
const { instance } = await WebAssembly.instantiate(readFileSync(module), {});
const wasm = instance.exports;

const put = (bytes) => {
  const place = wasm.input(bytes.length); // the memory may grow
  new Uint8Array(wasm.memory.buffer, place, bytes.length).set(bytes);
};

/** Calls `act` for each part of the file. Returns the milliseconds of processor time per part. */
const time = (parts, act) => {
  wasm.decode_frame(0);
  const before = process.cpuUsage();
  for (const part of parts) {
    put(part);
    if (!act(part.length)) throw new Error('the module refused a frame');
  }
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1e3 / parts.length;
};

for (const file of files) {
  const bytes = readFileSync(file);
  const size = file.match(/(\d+)x(\d+)\.yuv$/);
  const parts = [];
  if (size) {
    const length = (size[1] * size[2] * 3) / 2;
    for (let at = 0; at + length <= bytes.length; at += length) parts.push(bytes.subarray(at, at + length));
  } else {
    for (let at = 32; at + 12 <= bytes.length; at += 12 + bytes.readUInt32LE(at)) {
      parts.push(bytes.subarray(at + 12, at + 12 + bytes.readUInt32LE(at)));
    }
  }
  const act = size ? () => wasm.encode_frame(+size[1], +size[2], 40) : wasm.decode_frame;
  const passes = Array.from({ length: PASSES }, () => time(parts, act)).sort((a, b) => a - b);
  console.log(`${file}: ${passes[0].toFixed(2)} ms, ${(1e3 / passes[0]).toFixed(0)} pictures/s`);
}
