// An end of a call that is a page with Lockstep's client for browsers. page.html defines camera().

import { join } from './lockstep.js';

globalThis.watch = async (ticket) => {
  const video = document.body.appendChild(document.createElement('canvas'));
  globalThis.call = await join(ticket, { video, sound: false, kind: 'watch' });
};

globalThis.sendCamera = async (ticket, options) => {
  const { width, height } = options.reading;
  const { stream } = await camera(options);
  globalThis.call = await join(ticket, { sound: false, kind: 'send', width, height, rate: options.rate });
  await call.send(stream, { width, height });
};

/** Lets the browser save the pictures that web_reader.js kept. */
globalThis.save = async () => {
  const folder = await navigator.storage.getDirectory();
  const file = await (await folder.getFileHandle('shown.i420')).getFile();
  const link = Object.assign(document.createElement('a'), { href: URL.createObjectURL(file), download: file.name });
  link.click();
};
