/** Direction of the pictures: both ways, to this page, or from this page. */
export type Kind = 'talk' | 'watch' | 'send';

/** What carries a call. A WebSocket delays pictures on paths with loss. */
export type Transport = 'webtransport' | 'websocket';

export interface JoinOptions {
  /** Canvas that shows the other end; its control is transferred to a worker. */
  video?: HTMLCanvasElement;
  /** Whether the other end's sound is played. Default: true. */
  sound?: boolean;
  /** Kind of call; `auto` follows the listener. Default: `auto`. */
  kind?: Kind | 'auto';
  /** `auto` uses a WebSocket where WebTransport is missing or not answered in 4 s; the command must serve the page. */
  transport?: Transport | 'auto';
  /** Largest width of sent pictures. Default: 640. */
  width?: number;
  /** Largest height of sent pictures. Default: 360. */
  height?: number;
  /** Pictures per second, for the controller. Default: 30. */
  rate?: number;
}

/** Media that an end currently provides. */
export interface Presence {
  muted: boolean;
  cameraOff: boolean;
  /** Whether the other end records the call. A page never does. */
  recording?: boolean;
}

/** A message of the other end. */
export interface Message {
  payload: Uint8Array;
  /** Channel of a latest-only message; `null` for a reliable one. */
  channel: number | null;
  /** Milliseconds from sending to arrival. */
  delay: number;
}

/** Names of errors. */
export type ErrorCode =
  | 'ticket'
  | 'ticket_wrong'
  | 'ticket_used'
  | 'ticket_busy'
  | 'other_kind'
  | 'other_version'
  | 'no_webtransport'
  | 'unanswered'
  | 'silent'
  | 'peer_failed'
  | 'connection'
  | 'replaced'
  | 'unsupported'
  | 'message'
  | 'ended'
  | 'internal'
  | 'other';

export class CallError extends Error {
  readonly code: ErrorCode;
}

/** Statistics of one sent video stream. Rates are in bits per second, times in milliseconds. */
export interface SendingStatistics {
  target: number;
  /** Limit that bounds the size of the newest frame. */
  limitedBy: string | null;
  quantizer: number | null;
  roundTrip: number | null;
  frames: number;
  framesLost: number;
  captured: number;
  width: number;
  height: number;
}

/** Statistics of one received video stream. */
export interface ReceivingStatistics {
  frames: number;
  late: number;
  damaged: number;
  missing: number;
  jitter: number;
  width: number | null;
  height: number | null;
}

export interface Statistics {
  transport: Transport;
  roundTrip: number | null;
  sending: SendingStatistics[];
  receiving: ReceivingStatistics[];
  sound: { packets: number; concealedShare: number; delay: number | null; bitrate: number; loss: number };
  counters: {
    sent: number;
    received: number;
    sentBytes: number;
    receivedBytes: number;
    /** Pictures shown. */
    shown: number;
    /** Milliseconds of coding and decoding. */
    busy: number;
    /** Age of the newest picture, from capture until it was shown. */
    age: number | null;
    /** Datagrams that wait in the browser. */
    pending: number;
    /** Bytes of the module's memory. */
    memory: number;
  };
}

/** Events: `joined`, `message`, `presence`, `interrupted`, `resumed`, `size`, `ended`, `failed`. */
export interface Call extends EventTarget {
  readonly kind: Kind;
  readonly transport: Transport;
  /** Presence of the other end. */
  readonly peer: Presence;
  /** Resolves at the end of the call: `null`, or the error. */
  readonly ended: Promise<CallError | null>;
  /**
   * Sends the first video and audio track of a stream instead of the last one; `null` stops sending. The text of a video
   * track whose `contentHint` is `text` or `detail` stays sharp: on a slow path it has fewer frames instead of coarser ones.
   */
  send(stream: MediaStream | null, limits?: { width?: number; height?: number }): Promise<void>;
  /** Sends bytes or text: reliably and in order, or only the latest of a channel from 0 to 255. */
  sendMessage(data: string | ArrayBuffer | ArrayBufferView, options?: { channel?: number }): Promise<void>;
  setPresence(presence: Partial<Presence>): void;
  /** Plays the other end's sound, if `join` did not. */
  playSound(): Promise<void>;
  statistics(): Promise<Statistics | null>;
  close(): Promise<CallError | null>;
}

/** Joins the call of a ticket, or of a link that holds one. */
export function join(link: string, options?: JoinOptions): Promise<Call>;

/** The ticket in a text, a link or its fragment; empty if there is none. */
export function ticketIn(text: string): string;
