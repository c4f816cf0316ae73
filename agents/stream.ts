/** The events of an agent at work. Each provider's stream is read into these types. */
import type { ErrorCode } from '../domain/errors/codes.ts';

export const STREAM_LIMITS = {
  /** The bytes of one line; a longer line is skipped and counted. */
  lineBytes: 4 * 1024 * 1024,
  /** The events of one command; later ones are only in the transcript. */
  events: 10_000,
  /** UTF-16 code units of a tool's arguments, or of its error text. */
  detailCharacters: 500,
  /** Bytes of UTF-8 of what a call of a tool printed, from its end. */
  toolOutputBytes: 16 * 1024,
  /** UTF-16 code units of a reported message. The last message is the output and is never cut. */
  textCharacters: 8 * 1024,
  /** UTF-16 code units of names: tools, models, sessions. */
  nameCharacters: 200,
} as const;

export interface AgentUsage {
  /** All that the model read, cached or not. */
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** The part of `inputTokens` that the provider read from its cache. */
  readonly cachedInputTokens: number;
  /** Calls of the model that the stream shows. */
  readonly turns: number;
  /** Null: the stream does not say. */
  readonly costUsd: number | null;
}

/** Files of sessions, one after the other, as in a tar. A `Buffer` fits this type. */
export interface SessionBytes {
  includes(words: string): boolean;
  indexOf(words: string, from?: number): number;
}

export type EndCheck = (sessions: SessionBytes) => boolean;

export type AgentSaying =
  | { readonly kind: 'text'; readonly text: string }
  /** @remarks `failed`: reported when the call has failed, in addition to the call itself if the stream has both */
  | { readonly kind: 'tool'; readonly tool: string; readonly detail: string; readonly failed: boolean }
  /** The whole output of a tool call. `tool` is empty if the stream does not name the tool. */
  | { readonly kind: 'tool-output'; readonly tool: string; readonly text: string }
  /**
   * A call of a tool is over. Last of what a line says; no event.
   * @remarks `isIn`: whether files of sessions know of this end, which they get some time after the stream; absent: at once
   */
  | { readonly kind: 'tool-ended'; readonly isIn?: EndCheck }
  /** The model's server refuses the key or login, and the command line may ask again. No event: it is ended. */
  | { readonly kind: 'login-refused'; readonly words: string }
  /** So far. */
  | { readonly kind: 'usage'; readonly usage: AgentUsage };

/**
 * Texts and names are whole. The code that reports them removes secrets first and cuts afterwards, because half a
 * secret is not found.
 */
export interface AgentOutcome {
  /** Null: the stream never said. */
  readonly sessionId: string | null;
  readonly model: string | null;
  /** False: the stream stopped before the agent had ended its turn. */
  readonly hasEnded: boolean;
  /** Its last message, or the value that its schema asked for, as JSON. */
  readonly text: string | null;
  readonly failure: { readonly code: ErrorCode; readonly message: string } | null;
  readonly usage: AgentUsage;
  /** The stream has told all that was used. False: `usage` is the least that was used. */
  readonly isUsageFinal: boolean;
  /** Models that its command line has no price for, so that what it says of the cost is a guess. Absent: none. */
  readonly unpricedModels?: readonly string[];
}

/** Reads one stream, line by line. What is no JSON, or of a kind that is not known, says nothing. */
export interface AgentStream {
  line(text: string): readonly AgentSaying[];
  outcome(): AgentOutcome;
}

export const NO_USAGE: AgentUsage = {
  inputTokens: 0,
  outputTokens: 0,
  cachedInputTokens: 0,
  turns: 0,
  costUsd: null,
};
