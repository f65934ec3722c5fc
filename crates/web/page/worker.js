// Worker of a call: WebTransport, the WebAssembly module, coding of sound, and painting.
//
// The module is a state machine (crates/web/src/abi.rs). `pump` passes its outputs on until it waits for a time.

import { SocketSession } from './socket.js';

const FRAME = 960; // samples of 20 ms
// Datagrams that wait in the browser. Its congestion control holds them back, and the controller takes that wait for a
// queue of the path. So further ones wait in the module. (lab: 2026-11-browser)
const MAX_PENDING = 1;
const MAX_DECODE_MS = 150; // of a packet of sound
// How long WebTransport may take before a WebSocket is tried beside it; a network that blocks UDP gives no answer.
const WEBTRANSPORT_MS = 4_000;
const KINDS = { watch: 0, talk: 1, send: 2 };
// The browser decodes AV1; the module names its states. Level 5.1 has pictures up to 4096x2304.
const AV1 = { codec: 'av01.0.13M.08', optimizeForLatency: true, hardwareAcceleration: 'prefer-software' };
// A key frame of 16x16 grey samples: a browser that decodes it into planes can show a call with AV1.
const GREY = atob('EgAKCgAAAAGf+bXyAIAyDRAAxQBhhhgoJIA5UcA=');
const GREY_LIMIT_MS = 2_000;
const text = new TextDecoder();
const bytes = new TextEncoder();

/** @type {any} */ let wasm;
/** @type {WebTransport | SocketSession | null} */ let session = null;
let call = 0; // number of the attempt; events of earlier ones are ignored
let datagrams, control, messages;
let pending = 0;
let isOver = true;
/** @type {OffscreenCanvas | null} */ let canvas = null;
let context = null;
let timer = 0;
let isPumping = false;
let options = {};
let counters = {};
const now = () => performance.now();
const post = (message, transfer) => self.postMessage(message, transfer ?? []);

// A message resets the nesting of timers, which browsers clamp to 4 ms.
const wake = new MessageChannel();
let isAwake = false;
wake.port1.onmessage = () => {
  isAwake = false;
  pump();
};
function schedule() {
  if (!isAwake) {
    isAwake = true;
    wake.port2.postMessage(0);
  }
}

/** Runs `act`; a trap of WebAssembly ends the call with an event. */
function guarded(act) {
  try {
    return act();
  } catch (error) {
    fail('internal', `the page failed: ${error?.message ?? error}`);
  }
}

function fail(error, message) {
  if (isOver) return;
  isOver = true;
  clearTimeout(timer);
  call++;
  session?.close({ closeCode: 1, reason: '' });
  stopCoders();
  post({ type: 'failed', error, message });
}

/** Copies bytes into the module and returns their number. */
function put(source) {
  const view = ArrayBuffer.isView(source)
    ? new Uint8Array(source.buffer, source.byteOffset, source.byteLength)
    : new Uint8Array(source);
  const at = wasm.input(view.length);
  new Uint8Array(wasm.memory.buffer, at, view.length).set(view);
  return view.length;
}
const output = () => new Uint8Array(wasm.memory.buffer, wasm.output(), wasm.output_length());
const json = () => JSON.parse(text.decode(output().slice()));

async function load() {
  const hasAv1 = decodesAv1().catch(() => false);
  const url = new URL('./lockstep.wasm', import.meta.url);
  const response = await fetch(url);
  if (!response.ok) throw new Error(`cannot load ${url.pathname}: ${response.status}`);
  const { instance } = await WebAssembly.instantiate(await response.arrayBuffer(), {});
  wasm = instance.exports;
  wasm.set_av1(await hasAv1);
}

/** Whether the browser decodes AV1 into planes. `isConfigSupported` does not tell: Firefox 153 has pixels only. */
async function decodesAv1() {
  if (typeof VideoDecoder === 'undefined' || !(await VideoDecoder.isConfigSupported(AV1)).supported) return false;
  let decoder;
  const decodes = new Promise((resolve) => {
    decoder = new VideoDecoder({
      output: (frame) => planes(frame, 16, 16).then(() => resolve(true), () => resolve(false)).finally(() => frame.close()),
      error: () => resolve(false),
    });
    decoder.configure(AV1);
    decoder.decode(new EncodedVideoChunk({ type: 'key', timestamp: 0, data: Uint8Array.from(GREY, (byte) => byte.charCodeAt(0)) }));
    decoder.flush().catch(() => resolve(false));
    setTimeout(() => resolve(false), GREY_LIMIT_MS);
  });
  await decodes;
  if (decoder.state !== 'closed') decoder.close();
  return decodes;
}

/** The first session of several that opens; the others are closed. */
async function first(sessions) {
  for (const each of sessions) each.closed.catch(() => {});
  const won = await Promise.any(sessions.map((each) => each.ready.then(() => each)));
  for (const other of sessions) {
    if (other !== won) {
      try {
        other.close();
      } catch {
        // It failed already.
      }
    }
  }
  return won;
}

/** Opens a session by WebTransport with the first address that answers. */
async function openWebTransport(addresses, hash) {
  if (typeof WebTransport === 'undefined') throw new Error('this browser has no WebTransport');
  const value = new Uint8Array(hash);
  const open = (address) =>
    new WebTransport(`https://${address}/lockstep`, {
      serverCertificateHashes: [{ algorithm: 'sha-256', value }],
      congestionControl: 'low-latency',
      requireUnreliable: true,
    });
  return first(addresses.map(open));
}

/** Opens a WebSocket to the command that serves this page. */
async function openSocket() {
  const url = new URL('./socket', import.meta.url);
  url.protocol = url.protocol.replace('http', 'ws');
  return first([new SocketSession(url)]);
}

/** Opens a session: by WebTransport, else by a WebSocket, unless the options name one of them. */
async function connect(addresses, hash) {
  if (options.transport === 'websocket') return openSocket();
  const direct = openWebTransport(addresses, hash);
  if (options.transport === 'webtransport') return direct;
  const late = new Promise((resolve) => setTimeout(resolve, WEBTRANSPORT_MS));
  const socket = Promise.race([late, direct.catch(() => {})]).then((opened) => opened ?? openSocket());
  try {
    const won = await Promise.any([direct, socket]);
    // Another attempt need not wait again.
    if (won instanceof SocketSession) options.transport = 'websocket';
    for (const attempt of [direct, socket]) attempt.then((opened) => opened !== won && opened.close(), () => {});
    return won;
  } catch {
    // WebTransport is what should have worked.
    return direct;
  }
}

async function join() {
  const attempt = ++call;
  const isCurrent = () => attempt === call && !isOver;
  isOver = false;
  counters = { sent: 0, received: 0, sentBytes: 0, receivedBytes: 0, shown: 0, busy: 0, dropped: 0, age: null, blocked: 0 };
  stopCoders();
  const [connection] = crypto.getRandomValues(new Uint32Array(1));
  const { ticket, kind, width, height, rate } = options;
  wasm.create(put(bytes.encode(ticket)), KINDS[kind], width, height, rate, connection, now());
  const made = json();
  if (made.error) return fail('ticket', made.error);
  schedule(); // the wait has a limit
  try {
    session = await connect(made.addresses, made.hash);
  } catch (error) {
    const reason = error?.errors?.[0]?.message ?? error?.message ?? String(error);
    if (isCurrent() && typeof WebTransport === 'undefined' && options.transport !== 'websocket') {
      const remedy = 'use a current Chromium, Firefox or Safari, or a link to the command itself: --web=HOST:PORT';
      return fail('no_webtransport', `this browser has no WebTransport, and this host no WebSocket for it; ${remedy}`);
    }
    return isCurrent() && fail('unanswered', `nobody answered at ${made.addresses.join(', ')}: ${reason}`);
  }
  const own = session;
  if (!isCurrent()) return own.close();
  own.closed.then(
    ({ closeCode, reason }) => isCurrent() && guarded(() => (wasm.closed(put(bytes.encode(reason)), closeCode ?? 0), pump())),
    (error) => isCurrent() && guarded(() => (wasm.closed(put(bytes.encode(String(error?.message ?? error))), -1), pump())),
  );
  own.datagrams.incomingHighWaterMark = 1024;
  own.datagrams.outgoingMaxAge = 200;
  pending = 0;
  // Safari has createWritable() and no writable.
  datagrams = (own.datagrams.createWritable?.() ?? own.datagrams.writable).getWriter();
  try {
    const first = await own.createBidirectionalStream();
    control = first.writable.getWriter();
    if (!isCurrent()) return;
    wasm.opened(own.datagrams.maxDatagramSize || 1200, now());
    pump();
    const second = await own.createBidirectionalStream();
    messages = second.writable.getWriter();
    pump();
    read(first.readable, isCurrent, (chunk) => wasm.handle_control(put(chunk), now()));
    read(second.readable, isCurrent, (chunk) => wasm.handle_messages(put(chunk), now()));
    read(own.datagrams.readable, isCurrent, (datagram) => {
      counters.received++;
      counters.receivedBytes += datagram.byteLength;
      wasm.handle_datagram(put(datagram), now());
    });
  } catch (error) {
    // `closed` reports the reason.
    console.debug(error);
  }
}

async function read(readable, isCurrent, act) {
  const reader = readable.getReader();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done || !isCurrent()) return;
      guarded(() => act(value));
      schedule();
    }
  } catch {
    // `closed` reports the reason.
  }
}

function pump() {
  if (isPumping || isOver) return;
  isPumping = true;
  clearTimeout(timer);
  try {
    const until = now() + 30;
    for (;;) {
      const started = now();
      const isBlocked = pending >= MAX_PENDING;
      const kind = wasm.poll(!isBlocked, started);
      if (kind === 8) {
        counters.busy += now() - started;
        // What arrived in the meantime comes first.
        schedule();
        break;
      }
      if (kind === 0) {
        counters.blocked += isBlocked ? 1 : 0;
        const wait = Math.max(wasm.output_number(0) - now(), isBlocked ? 5 : 0);
        timer = setTimeout(schedule, Math.min(wait, 60_000));
        break;
      }
      handle(kind);
      if (isOver) break;
      if (now() > until) {
        schedule();
        break;
      }
    }
  } catch (error) {
    fail('internal', `the page failed: ${error?.message ?? error}`);
  } finally {
    isPumping = false;
  }
}

function handle(kind) {
  const number = (place) => wasm.output_number(place);
  switch (kind) {
    case 1: {
      const datagram = output().slice();
      counters.sent++;
      counters.sentBytes += datagram.length;
      pending++;
      const own = session;
      const left = () => {
        if (own === session && pending-- === MAX_PENDING) schedule();
      };
      datagrams.write(datagram).then(left, left);
      break;
    }
    case 2:
      control?.write(output().slice()).catch(() => {});
      break;
    case 3: {
      const chunk = output().slice();
      messages?.write(chunk).then(
        () => wasm.wrote_messages(chunk.length),
        () => {},
      );
      break;
    }
    case 4:
      paint(number(0), number(1), number(2), number(3));
      break;
    case 5:
      decodeSound(output().slice(), number(0), number(1));
      break;
    case 6: {
      const all = output().slice();
      const event = JSON.parse(text.decode(all.subarray(0, number(0))));
      if (event.type === 'message') event.payload = all.slice(number(0));
      handleEvent(event);
      break;
    }
    case 7:
      isOver = true;
      clearTimeout(timer);
      call++;
      try {
        session?.close({ closeCode: number(0), reason: '' });
      } catch {
        // It is closed already.
      }
      stopCoders();
      break;
    case 9:
      decodeUnit(output().slice(), number(0), number(1) === 1);
      break;
  }
}

const transport = () => (session instanceof SocketSession ? 'websocket' : 'webtransport');

function handleEvent(event) {
  if (event.type === 'failed' && event.error === 'other_kind' && options.others?.length) {
    // The listener refuses another kind of call without using up the ticket.
    options.kind = options.others.shift();
    isOver = true;
    setTimeout(() => join().catch((error) => fail('internal', String(error))));
    return;
  }
  if (event.type === 'joined') {
    options.others = [];
    event.kind = options.kind;
    event.transport = transport();
  }
  if (event.type !== 'quality') post(event);
}

function paint(stream, width, height, age) {
  if (stream !== 0) return;
  counters.shown++;
  counters.age = age < 0 ? null : age;
  counters.width = width;
  counters.height = height;
  if (!canvas) return;
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
    post({ type: 'size', width, height });
  }
  context ??= canvas.getContext('2d', { alpha: false, desynchronized: true });
  const picture = new VideoFrame(output(), {
    format: 'I420',
    codedWidth: width,
    codedHeight: height,
    timestamp: Math.round(now() * 1e3),
    colorSpace: { matrix: 'smpte170m', primaries: 'smpte170m', transfer: 'smpte170m', fullRange: false },
  });
  context.drawImage(picture, 0, 0);
  picture.close();
}

// Received pictures of AV1: each stream has a decoder of the browser.

let decoders = new Map();
let units = 0;

/** Decodes a temporal unit with one picture. */
function decodeUnit(data, stream, isKeyFrame) {
  if (!decoders.has(stream)) {
    let previous = Promise.resolve(); // copies finish in order
    const decoder = new VideoDecoder({
      output: (frame) => {
        previous = previous.then(() => takeUnit(stream, frame, decoder)).finally(() => frame.close());
      },
      error: (error) => decoders.get(stream) === decoder && failDecoder(error),
    });
    decoder.configure(AV1);
    decoders.set(stream, decoder);
  }
  decoders.get(stream).decode(new EncodedVideoChunk({ type: isKeyFrame ? 'key' : 'delta', timestamp: units++, data }));
}

function failDecoder(error) {
  fail('unsupported', `this browser cannot decode the AV1 pictures: ${error?.message ?? error}; ask the sender for --codec functional`);
}

async function takeUnit(stream, frame, decoder) {
  const { width, height } = frame.visibleRect;
  try {
    const picture = await planes(frame, width, height);
    if (decoders.get(stream) !== decoder) return;
    guarded(() => {
      put(picture);
      wasm.decoded_unit(stream, width, height, now());
    });
    schedule();
  } catch (error) {
    if (decoders.get(stream) === decoder) failDecoder(error);
  }
}

function stopCoders() {
  for (const decoder of decoders.values()) if (decoder.state !== 'closed') decoder.close();
  decoders = new Map();
  stopSound();
}

// Pictures: a stream of VideoFrames from a track.

let capture = 0;
let scaled = null;

async function capturePictures(readable) {
  const own = ++capture;
  const reader = readable.getReader();
  for (;;) {
    const { value: frame, done } = await reader.read();
    if (done) return;
    if (own !== capture) {
      frame.close();
      reader.cancel().catch(() => {});
      return;
    }
    await takePicture(frame);
  }
}

/** Sends a picture, scaled down to the limits of the options. It closes the frame. */
async function takePicture(frame) {
  try {
    if (isOver) return;
    const captured = now();
    const { isScreen } = options;
    const { displayWidth, displayHeight } = frame;
    const scale = Math.min(1, options.width / displayWidth, options.height / displayHeight);
    const width = Math.max(2, Math.round((displayWidth * scale) / 2) * 2);
    const height = Math.max(2, Math.round((displayHeight * scale) / 2) * 2);
    const rect = frame.visibleRect;
    const isPlain = (frame.format === 'I420' || frame.format === 'NV12') && rect.width === width && rect.height === height;
    const picture = isPlain ? await planes(frame, width, height) : pixels(frame, width, height);
    if (!isOver) {
      guarded(() => {
        put(picture);
        if (isPlain) wasm.send_frame(width, height, isScreen, captured, now());
        else wasm.send_pixels(width, height, isScreen, captured, now());
      });
      schedule();
    }
  } catch (error) {
    counters.dropped++;
    console.debug(error);
  } finally {
    frame.close();
  }
}

/** I420 of a frame of this size in the format I420 or NV12. */
async function planes(frame, width, height) {
  if (frame.format !== 'I420' && frame.format !== 'NV12') throw new Error(`pictures have the format ${frame.format}`);
  const luma = width * height;
  const side = Math.ceil(width / 2);
  const chroma = side * Math.ceil(height / 2);
  const picture = new Uint8Array(luma + 2 * chroma);
  if (frame.format === 'I420') {
    const layout = [
      { offset: 0, stride: width },
      { offset: luma, stride: side },
      { offset: luma + chroma, stride: side },
    ];
    await frame.copyTo(picture, { layout });
    return picture;
  }
  const both = new Uint8Array(luma + 2 * chroma);
  const layout = [
    { offset: 0, stride: width },
    { offset: luma, stride: 2 * side },
  ];
  await frame.copyTo(both, { layout });
  picture.set(both.subarray(0, luma));
  for (let from = luma, u = luma, v = luma + chroma; from < both.length; from += 2) {
    picture[u++] = both[from];
    picture[v++] = both[from + 1];
  }
  return picture;
}

/** RGBA of a frame at another size or in another format. */
function pixels(frame, width, height) {
  if (scaled?.canvas.width !== width || scaled.canvas.height !== height) {
    scaled = new OffscreenCanvas(width, height).getContext('2d', { alpha: false, willReadFrequently: true });
  }
  scaled.drawImage(frame, 0, 0, width, height);
  return scaled.getImageData(0, 0, width, height).data;
}

// Sound: frames of 20 ms from the microphone's worklet, and to the loudspeaker's.

/** @type {AudioEncoder | null} */ let encoder = null;
/** @type {AudioDecoder | null} */ let decoder = null;
let waiting = []; // frames in the encoder: number, time, packet
let captured = 0;
let coded = { bitrate: 0, loss: -1 };
let arrived = new Map(); // packets in the decoder, by timestamp
let decoded = 0;
let speaker = null;

function stopSound() {
  if (encoder && encoder.state !== 'closed') encoder.close();
  if (decoder && decoder.state !== 'closed') decoder.close();
  encoder = decoder = null;
  waiting = [];
  arrived = new Map();
  captured = decoded = 0;
  coded = { bitrate: 0, loss: -1 };
}

/** Configures the encoder if the path's rate or loss differ clearly. */
function configureEncoder() {
  wasm.statistics(now());
  const { sound } = json();
  const loss = Math.min(30, Math.ceil(sound.loss * 20) * 5);
  if (Math.abs(sound.bitrate - coded.bitrate) < 0.2 * coded.bitrate && loss === coded.loss) return;
  coded = { bitrate: sound.bitrate, loss };
  encoder.configure({
    codec: 'opus',
    sampleRate: 48_000,
    numberOfChannels: 1,
    bitrate: sound.bitrate,
    opus: { application: 'voip', frameDuration: 20_000, usedtx: true, useinbandfec: true, packetlossperc: loss },
  });
}

function captureSound(samples) {
  if (isOver || typeof AudioEncoder === 'undefined') return;
  if (encoder?.state === 'closed') encoder = null;
  if (!encoder) {
    encoder = new AudioEncoder({
      output: (chunk) => {
        // Firefox subtracts the encoder's delay of 6.5 ms from every timestamp but the first.
        const frame = waiting.find((each) => Math.abs(each.timestamp - chunk.timestamp) < 10_000);
        if (!frame) return;
        frame.packet = new Uint8Array(chunk.byteLength);
        chunk.copyTo(frame.packet);
        sendSound(frame);
      },
      error: (error) => console.debug(error),
    });
    coded = { bitrate: 0, loss: -1 };
    configureEncoder();
  } else if (captured % 50 === 0) {
    configureEncoder();
  }
  const timestamp = captured++ * 20_000;
  waiting.push({ timestamp, at: now(), packet: null });
  const data = new AudioData({
    format: 'f32',
    sampleRate: 48_000,
    numberOfFrames: FRAME,
    numberOfChannels: 1,
    timestamp,
    data: samples,
  });
  encoder.encode(data);
  data.close();
  // The encoder makes no packets in silence.
  if (waiting.length > 5) sendSound(waiting[0]);
}

/** Sends all frames up to `last`, in order; frames without a packet are silent. */
function sendSound(last) {
  guarded(() => {
    while (waiting.length) {
      const frame = waiting.shift();
      wasm.send_sound(frame.packet ? put(frame.packet) : 0, frame.at, now());
      if (frame === last) break;
    }
  });
  schedule();
}

/** Makes a decoder. A first packet of silence starts it, which takes up to half a second. */
function startDecoder() {
  if (typeof AudioDecoder === 'undefined' || (decoder && decoder.state !== 'closed')) return;
  decoder = new AudioDecoder({ output: playDecoded, error: (error) => console.debug(error) });
  decoder.configure({ codec: 'opus', sampleRate: 48_000, numberOfChannels: 1 });
  arrived = new Map();
  decode(new Uint8Array([0xf8, 0xff, 0xfe]));
}

/** Decodes a packet, and remembers where it belongs. */
function decode(data, of = null) {
  const timestamp = decoded++ * 20_000;
  arrived.set(timestamp, of);
  if (arrived.size > 100) arrived.delete(arrived.keys().next().value);
  decoder.decode(new EncodedAudioChunk({ type: 'key', timestamp, data }));
}

function decodeSound(packet, frame, captured) {
  if (!speaker) return;
  if (packet.length === 0) {
    wasm.decoded_sound(0, frame, captured, now());
    return;
  }
  startDecoder();
  if (decoder) decode(packet, { frame, captured, at: now() });
}

function playDecoded(data) {
  const of = arrived.get(data.timestamp);
  arrived.delete(data.timestamp);
  const samples = new Float32Array(data.numberOfFrames);
  data.copyTo(samples, { planeIndex: 0, format: 'f32-planar' });
  data.close();
  // A decoder that starts is late. That says nothing about the path, so it must not delay the sound from then on.
  if (!of || isOver || now() - of.at > MAX_DECODE_MS) return;
  const whole = new Int16Array(FRAME);
  for (let place = 0; place < Math.min(FRAME, samples.length); place++) {
    whole[place] = Math.max(-32_768, Math.min(32_767, Math.round(samples[place] * 32_768)));
  }
  guarded(() => wasm.decoded_sound(put(whole), of.frame, of.captured, now()));
}

/** The loudspeaker's worklet requests frames when its queue is short. */
function play({ frames, latency }) {
  guarded(() => {
    for (let frame = 0; frame < frames; frame++) {
      if (isOver) {
        speaker.postMessage(new Float32Array(FRAME));
        continue;
      }
      wasm.play(latency + frame * 20, now());
      const samples = new Int16Array(output().slice().buffer);
      const floats = Float32Array.from(samples, (sample) => sample / 32_768);
      speaker.postMessage(floats, [floats.buffer]);
    }
  });
  schedule();
}

self.onmessage = async ({ data }) => {
  switch (data.type) {
    case 'join':
      options = data.options;
      canvas = data.canvas ?? canvas;
      try {
        await load();
        await join();
      } catch (error) {
        isOver = false;
        fail('internal', `the page failed: ${error?.message ?? error}`);
      }
      break;
    case 'pictures':
      capturePictures(data.readable).catch((error) => console.debug(error));
      break;
    case 'picture':
      await takePicture(data.frame);
      break;
    case 'no_pictures':
      capture++;
      break;
    case 'limits':
      Object.assign(options, data.limits);
      break;
    case 'microphone':
      data.port.onmessage = ({ data: samples }) => guarded(() => captureSound(samples));
      break;
    case 'speaker':
      speaker = data.port;
      speaker.onmessage = ({ data: need }) => play(need);
      startDecoder();
      break;
    case 'presence':
      guarded(() => (wasm?.set_presence(data.muted, data.cameraOff), schedule()));
      break;
    case 'message': {
      let error = 'the call is not connected';
      if (!isOver) {
        guarded(() => {
          wasm.send_message(put(data.payload), data.channel ?? -1, now());
          error = text.decode(output().slice());
        });
        schedule();
      }
      post({ type: 'sent', id: data.id, error });
      break;
    }
    case 'statistics': {
      let statistics = null;
      if (wasm && !isOver) {
        guarded(() => (wasm.statistics(now()), (statistics = json())));
        if (statistics) Object.assign(statistics, { transport: transport(), counters: { ...counters, pending, memory: wasm.memory.buffer.byteLength } });
      }
      post({ type: 'statistics', id: data.id, statistics });
      break;
    }
    case 'close':
      if (isOver) post({ type: 'ended', by: 'self' });
      else guarded(() => (wasm.close(now()), pump()));
      break;
  }
};
