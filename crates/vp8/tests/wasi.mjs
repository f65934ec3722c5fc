// Runs a test binary of target wasm32-wasip1, as Cargo's runner: node wasi.mjs TEST.wasm ARGUMENTS...

import { readFileSync } from 'node:fs';
import { WASI } from 'node:wasi';

const args = process.argv.slice(2);
const wasi = new WASI({ version: 'preview1', args, env: process.env });
const { instance } = await WebAssembly.instantiate(readFileSync(args[0]), wasi.getImportObject());
process.exitCode = wasi.start(instance);
