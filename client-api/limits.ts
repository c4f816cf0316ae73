/** The limits of a client. docs/reference/client.md lists them. */
export interface ClientLimits {
  /** The time until an answer begins, without the time that the request asks for. */
  readonly answerMs: number;
  /** An answer that sends nothing for this long is lost: the service sends a comment each 15 s. */
  readonly silenceMs: number;
  /** The time until the end of an answer that is read as a whole. */
  readonly wholeMs: number;
  /** The pauses before further tries of a call. A random part of at most a half is left out. */
  readonly pausesMs: readonly number[];
  /** A call waits for a `Retry-After` of at most this. */
  readonly retryAfterMs: number;
  /** The longest pause of a follower, also after `Retry-After`. */
  readonly followPauseMs: number;
  /** A follower that hears nothing of its service for this long gives up. */
  readonly awayMs: number;
  /** How long a follower waits for a run that the service does not know: a start may return before its admission. */
  readonly unknownMs: number;
  readonly jsonBytes: number;
  readonly problemBytes: number;
  /** An event of a stream, and each of its lines. */
  readonly eventBytes: number;
  /** An output that is read at once. */
  readonly artifactBytes: number;
}

const MIB = 1024 * 1024;

export const CLIENT_LIMITS: ClientLimits = {
  answerMs: 30_000,
  silenceMs: 45_000,
  wholeMs: 600_000,
  pausesMs: [200, 500, 1_000, 2_000],
  retryAfterMs: 5_000,
  followPauseMs: 60_000,
  awayMs: 300_000,
  unknownMs: 10_000,
  jsonBytes: 64 * MIB,
  problemBytes: MIB,
  eventBytes: 16 * MIB,
  artifactBytes: 64 * MIB,
};
