// @lockstep/client: joins a call of Lockstep from a page.
//
// Types are in lockstep.d.ts.

/** Why a call could not begin, or ended. `code` names the reason. */
export class CallError extends Error {
  constructor(code, message) {
    super(message);
    this.name = 'CallError';
    this.code = code;
  }
}

/** The ticket in a text, a link or its fragment; empty if there is none. */
export function ticketIn(text) {
  return /LOCKSTEP-[A-Z2-7\s]+/i.exec(decodeURIComponent(text))?.[0].replace(/\s/g, '') ?? '';
}

class Call extends EventTarget {
  #worker;
  #audio = null;
  #requests = new Map();
  #next = 0;
  #presence = { muted: false, cameraOff: false };
  #sources = []; // what ends with the sent stream
  #isOver = false;

  constructor(worker) {
    super();
    this.#worker = worker;
    this.kind = null;
    this.transport = null;
    this.peer = { muted: false, cameraOff: false, recording: false };
    this.ended = new Promise((resolve) => (this.resolveEnded = resolve));
    addEventListener('pagehide', this.#leave);
    worker.onmessage = ({ data }) => this.#handle(data);
    worker.onerror = (event) => {
      event.preventDefault();
      this.#handle({ type: 'failed', error: 'internal', message: `the page failed: ${event.message}` });
    };
  }

  /** Ends the call with its page. */
  #leave = () => this.close();

  #handle(data) {
    switch (data.type) {
      case 'sent':
      case 'statistics': {
        const resolve = this.#requests.get(data.id);
        this.#requests.delete(data.id);
        resolve?.(data.type === 'sent' ? data.error : data.statistics);
        return;
      }
      case 'joined':
        this.kind = data.kind;
        this.transport = data.transport;
        break;
      case 'presence':
        this.peer = { muted: data.muted, cameraOff: data.cameraOff, recording: data.recording };
        break;
      case 'ended':
      case 'failed':
        if (this.#isOver) return;
        this.#isOver = true;
        this.#end();
        break;
    }
    this.dispatchEvent(new CustomEvent(data.type, { detail: data }));
    if (this.#isOver) {
      this.resolveEnded(data.type === 'failed' ? new CallError(data.error, data.message) : null);
    }
  }

  #end() {
    removeEventListener('pagehide', this.#leave);
    this.#stopSending();
    this.#audio?.close();
    this.#audio = null;
    for (const resolve of this.#requests.values()) resolve(null);
    this.#requests.clear();
    // The last datagrams leave first.
    setTimeout(() => this.#worker.terminate(), 500);
  }

  #request(message, transfer) {
    if (this.#isOver) return Promise.resolve(null);
    const id = this.#next++;
    return new Promise((resolve) => {
      this.#requests.set(id, resolve);
      this.#worker.postMessage({ ...message, id }, transfer ?? []);
    });
  }

  async #context() {
    if (!this.#audio) {
      const audio = new AudioContext({ sampleRate: 48_000, latencyHint: 'interactive' });
      this.#audio = audio;
      audio.ready = audio.audioWorklet.addModule(new URL('./sound.js', import.meta.url));
    }
    await this.#audio.ready;
    return this.#audio;
  }

  /** Plays the other end's sound. Browsers require a click before. */
  async playSound() {
    const audio = await this.#context();
    if (this.#isOver || audio.speaker) return;
    const speaker = new AudioWorkletNode(audio, 'lockstep-loudspeaker', { numberOfInputs: 0, outputChannelCount: [1] });
    audio.speaker = speaker;
    const { port1, port2 } = new MessageChannel();
    const latency = 1e3 * ((audio.baseLatency || 0) + (audio.outputLatency || 0));
    speaker.port.postMessage({ port: port1, latency }, [port1]);
    this.#worker.postMessage({ type: 'speaker', port: port2 }, [port2]);
    speaker.connect(audio.destination);
    await audio.resume();
  }

  /**
   * Sends the first video and audio track of a stream instead of the last one; `null` stops sending. The text of a video track
   * whose `contentHint` is `text` or `detail` stays sharp.
   */
  async send(stream, { width = 640, height = 360 } = {}) {
    this.#stopSending();
    if (!stream || this.#isOver) return;
    const [video] = stream.getVideoTracks();
    const [sound] = stream.getAudioTracks();
    const isScreen = ['text', 'detail'].includes(video?.contentHint);
    this.#worker.postMessage({ type: 'limits', limits: { width, height, isScreen } });
    if (video) this.#sendPictures(video);
    if (sound) await this.#sendSound(sound);
  }

  #sendPictures(track) {
    if (typeof MediaStreamTrackProcessor !== 'undefined') {
      const { readable } = new MediaStreamTrackProcessor({ track, maxBufferSize: 1 });
      this.#worker.postMessage({ type: 'pictures', readable }, [readable]);
      this.#sources.push(() => this.#worker.postMessage({ type: 'no_pictures' }));
      return;
    }
    const video = document.createElement('video');
    Object.assign(video, { muted: true, playsInline: true, srcObject: new MediaStream([track]) });
    let isWanted = true;
    const take = () => {
      if (!isWanted) return;
      const frame = new VideoFrame(video, { timestamp: Math.round(performance.now() * 1e3) });
      this.#worker.postMessage({ type: 'picture', frame }, [frame]);
      video.requestVideoFrameCallback(take);
    };
    video.requestVideoFrameCallback(take);
    video.play().catch(() => {});
    this.#sources.push(() => {
      isWanted = false;
      video.srcObject = null;
    });
  }

  async #sendSound(track) {
    const audio = await this.#context();
    await audio.resume();
    if (this.#isOver) return;
    const source = audio.createMediaStreamSource(new MediaStream([track]));
    const microphone = new AudioWorkletNode(audio, 'lockstep-microphone', { numberOfOutputs: 0 });
    const { port1, port2 } = new MessageChannel();
    microphone.port.postMessage(port1, [port1]);
    this.#worker.postMessage({ type: 'microphone', port: port2 }, [port2]);
    source.connect(microphone);
    this.#sources.push(() => {
      source.disconnect();
      microphone.port.postMessage(null);
    });
  }

  #stopSending() {
    for (const stop of this.#sources.splice(0)) stop();
  }

  /** Sends bytes or text: reliably and in order, or only the latest of a `channel` from 0 to 255. */
  async sendMessage(data, { channel } = {}) {
    const payload = typeof data === 'string' ? new TextEncoder().encode(data) : new Uint8Array(data);
    const error = await this.#request({ type: 'message', payload, channel });
    if (error !== '') throw new CallError('message', error ?? 'the call is over');
  }

  /** Mutes this end, or turns its camera off, and informs the other end. */
  setPresence(presence) {
    Object.assign(this.#presence, presence);
    this.#worker.postMessage({ type: 'presence', ...this.#presence });
  }

  /** Statistics of this moment; `null` after the end. */
  statistics() {
    return this.#request({ type: 'statistics' });
  }

  /** Ends the call. */
  close() {
    if (!this.#isOver) this.#worker.postMessage({ type: 'close' });
    return this.ended;
  }
}

/**
 * Joins the call of a ticket, or of a link that holds one.
 *
 * `kind` is `talk`, `watch` or `send`, or `auto` to follow the listener. `transport` is `webtransport` or `websocket`,
 * or `auto` for a WebSocket where WebTransport fails.
 */
export async function join(
  link,
  { video, sound = true, kind = 'auto', transport = 'auto', width = 640, height = 360, rate = 30 } = {},
) {
  const ticket = ticketIn(link);
  if (!ticket) throw new CallError('ticket', 'a ticket begins with LOCKSTEP-; ask for a new link');
  const worker = new Worker(new URL('./worker.js', import.meta.url), { type: 'module' });
  const call = new Call(worker);
  const others = kind === 'auto' ? ['watch', 'send'] : [];
  const options = { ticket, kind: kind === 'auto' ? 'talk' : kind, others, transport, width, height, rate };
  const canvas = video?.transferControlToOffscreen();
  worker.postMessage({ type: 'join', options, canvas }, canvas ? [canvas] : []);
  const joined = new Promise((resolve) => call.addEventListener('joined', resolve, { once: true }));
  const error = await Promise.race([joined.then(() => undefined), call.ended]);
  if (error !== undefined) throw error ?? new CallError('ended', 'the call is over');
  if (sound) call.playSound().catch((reason) => console.debug(reason));
  return call;
}
