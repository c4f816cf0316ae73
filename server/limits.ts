/** The limits of the API. docs/reference/api-http.md lists them. */
export interface ApiLimits {
  /** The largest body of JSON, in bytes. */
  readonly bodyBytes: number;
  /** The most levels of objects and lists in a body. */
  readonly bodyDepth: number;
  readonly headerBytes: number;
  /** The time in which all headers of a request arrive. */
  readonly headersMs: number;
  /** The time in which a request arrives, with its body. */
  readonly requestMs: number;
  /** An upload ends if none of its bytes arrives for this long; it may take longer than `requestMs`. */
  readonly uploadPauseMs: number;
  readonly connections: number;
  /** The most of them over TCP, so that clients of the network cannot lock out the owner on the Unix socket. */
  readonly tcpConnections: number;
  /** Requests of one token; also requests of one address without a valid token. */
  readonly requestsPerSecond: number;
  /** Requests of webhooks of one address without a right proof. */
  readonly unprovenPerSecond: number;
  /** Bodies of webhooks that are in memory at the same time, in bytes: of one address, and all. */
  readonly hookBytesOfAddress: number;
  readonly hookBytes: number;
  /** Senders of webhooks that wait for their runs at the same time. */
  readonly hookWaits: number;
  /** How often the tokens of open requests are checked. */
  readonly checkTokensEveryMs: number;
  /** The time in which a client of TLS ends its handshake. */
  readonly handshakeMs: number;
  /** The pause after which a silent stream sends a comment. */
  readonly heartbeatMs: number;
  /** A reader of a stream that accepts no byte for this long is disconnected. */
  readonly stalledMs: number;
  /** The bytes of a stream that are written at once, so that they are all that a reader who does not read keeps here. */
  readonly pieceBytes: number;
}

export const API_LIMITS: ApiLimits = {
  bodyBytes: 4 * 1024 * 1024,
  bodyDepth: 100,
  headerBytes: 16 * 1024,
  headersMs: 10_000,
  requestMs: 30_000,
  uploadPauseMs: 30_000,
  connections: 1_000,
  requestsPerSecond: 50,
  unprovenPerSecond: 50,
  hookBytesOfAddress: 16 * 1024 * 1024,
  hookBytes: 64 * 1024 * 1024,
  hookWaits: 200,
  checkTokensEveryMs: 1_000,
  tcpConnections: 900,
  handshakeMs: 10_000,
  heartbeatMs: 15_000,
  stalledMs: 30_000,
  pieceBytes: 64 * 1024,
};

/** The most seconds of `?wait=`. */
export const MOST_WAIT_SECONDS = 60;
/** The most characters of filters of events and logs. */
export const GREP_CHARACTERS = 256;
export const STAGE_CHARACTERS = 1_000;
export const SINCE_CHARACTERS = 64;
/** The most runs of a page. */
export const MOST_RUNS = 200;
/** The most stages of a page. */
export const MOST_STAGES = 200;
/** The most deliveries of a page. */
export const MOST_DELIVERIES = 200;
/** The most notifications of a page. */
export const MOST_NOTIFICATIONS = 200;
/** The most deployments of a page. */
export const MOST_DEPLOYMENTS = 200;
/** The most tokens of a page. */
export const MOST_TOKENS = 200;
/** The most rows of a page of the audit log. */
export const MOST_AUDIT_ROWS = 1_000;
/** The most ids of a page. */
export const MOST_IDS = 1_000;
/** The seconds that a request about a session waits without `?wait=`. */
export const SESSION_WAIT_SECONDS = 10;
/** The most sessions of a list. */
export const MOST_SESSIONS = 1_000;
/** The most answers of sessions for which the service waits at the same time. */
export const MOST_SESSION_WAITS = 500;
/** All names and values of `variables` together. */
export const VARIABLES_BYTES = 64 * 1024;
