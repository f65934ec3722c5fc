// WebSocket in place of WebTransport. Crate `cli`, file `web_socket.rs`, is the other side.
//
// TCP keeps the order of all data, so one lost packet delays all that follows.

const DATAGRAM = 0;
const CONTROL = 1; // of the two streams; the next number is that of messages
const SESSION_CLOSED = 4000; // code of a close frame whose reason is the session's code
const MAX_CHUNK = 16_384; // bytes of a stream in one message
// Bytes that wait in the browser. Further ones wait where the controller sees the wait.
const MAX_BUFFERED = 16_384;
// Datagrams pass through QUIC at the listener, where a packet has at least 1200 bytes.
const MAX_DATAGRAM = 1_100;

/** The part of the interface of WebTransport that the worker uses. */
export class SocketSession {
  #socket;
  #streams = [];
  #opened = 0;

  constructor(url) {
    this.#socket = new WebSocket(url);
    this.#socket.binaryType = 'arraybuffer';
    this.#socket.onmessage = ({ data }) => this.#handle(data);
    for (let kind = DATAGRAM; kind <= CONTROL + 1; kind++) this.#streams.push(this.#stream(kind));
    this.datagrams = { ...this.#streams[DATAGRAM], maxDatagramSize: MAX_DATAGRAM };
    this.ready = new Promise((resolve, reject) => {
      this.#socket.onopen = resolve;
      this.#socket.addEventListener('close', () => reject(new Error(`no WebSocket at ${url}`)));
    });
    this.closed = new Promise((resolve, reject) => {
      this.#socket.addEventListener('close', ({ code, reason }) => {
        if (code === SESSION_CLOSED) resolve({ closeCode: Number(reason), reason: '' });
        else reject(new Error(`the WebSocket closed with code ${code}`));
      });
    });
    this.ready.catch(() => {});
    this.closed.catch(() => {});
  }

  #stream(kind) {
    const stream = {};
    stream.readable = new ReadableStream({ start: (controller) => (stream.controller = controller) });
    stream.writable = new WritableStream({ write: (chunk) => this.#write(kind, chunk) });
    return stream;
  }

  #handle(data) {
    const message = new Uint8Array(data);
    this.#streams[message[0]]?.controller.enqueue(message.subarray(1));
  }

  async #write(kind, chunk) {
    for (let at = 0; at < chunk.length; at += MAX_CHUNK) {
      const part = chunk.subarray(at, at + MAX_CHUNK);
      const message = new Uint8Array(1 + part.length);
      message[0] = kind;
      message.set(part, 1);
      this.#socket.send(message);
      // No event reports that the browser has sent.
      while (this.#socket.bufferedAmount > MAX_BUFFERED) await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }

  /** The stream of control messages, and then that of messages of the application. */
  async createBidirectionalStream() {
    return this.#streams[CONTROL + this.#opened++];
  }

  close({ closeCode = 0 } = {}) {
    this.#socket.close(SESSION_CLOSED, String(closeCode));
  }
}
