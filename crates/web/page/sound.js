// Worklets of a call's sound: a microphone that makes frames of 20 ms, and a loudspeaker that requests them.

const FRAME = 960; // samples of 20 ms at 48,000 per second
const QUEUE = 2 * FRAME; // samples that wait for the loudspeaker

class Microphone extends AudioWorkletProcessor {
  constructor() {
    super();
    this.samples = new Float32Array(FRAME);
    this.length = 0;
    this.port.onmessage = ({ data }) => (this.out = data);
  }

  process([channels]) {
    const [first, second] = channels;
    for (let place = 0; place < (first?.length ?? 0); place++) {
      this.samples[this.length++] = second ? (first[place] + second[place]) / 2 : first[place];
      if (this.length === FRAME) {
        this.length = 0;
        this.out?.postMessage(this.samples.slice());
      }
    }
    return true;
  }
}

class Loudspeaker extends AudioWorkletProcessor {
  constructor() {
    super();
    this.frames = [];
    this.place = 0;
    this.requested = 0;
    this.latency = 0;
    this.port.onmessage = ({ data }) => {
      if (data.port) {
        this.in = data.port;
        this.in.onmessage = ({ data: frame }) => {
          this.requested--;
          this.frames.push(frame);
        };
      }
      if (data.latency !== undefined) this.latency = data.latency;
    };
  }

  process(_, [[out]]) {
    for (let place = 0; place < out.length && this.frames.length; place++) {
      out[place] = this.frames[0][this.place++];
      if (this.place === FRAME) {
        this.frames.shift();
        this.place = 0;
      }
    }
    if (this.in) {
      const queued = this.frames.length * FRAME - this.place;
      const frames = Math.ceil((QUEUE - queued) / FRAME) - this.requested;
      if (frames > 0) {
        this.requested += frames;
        this.in.postMessage({ frames, latency: queued / 48 + this.latency });
      }
    }
    return true;
  }
}

registerProcessor('lockstep-microphone', Microphone);
registerProcessor('lockstep-loudspeaker', Loudspeaker);
