/** The lines of a session file, and the part of them that `start --session new` prints. */
import type { SessionResult } from '../../domain/step-machine/result.ts';

/**
 * Whether the client writes outputs to the file (`file`), or the command line does, which gets them by flags (`flag`).
 */
export type SessionOutputMode = 'file' | 'flag';

export interface SessionPointer {
  /** 32 characters of 0-9 and a-f. */
  readonly sessionId: string;
  readonly file: string;
  /** The line of the first prompt, from 1. */
  readonly line: number;
}

export interface SessionHeader {
  readonly type: 'header';
  readonly sessionId: string;
  readonly skill: string;
  readonly host: string;
  readonly tools?: readonly string[];
  readonly isSubagent?: boolean;
  readonly params: unknown;
  /** ISO 8601. */
  readonly createdAt: string;
  readonly outputMode: SessionOutputMode;
}

/** An answer of the client's to a step. */
export interface SessionOutputLine {
  readonly type: 'output';
  readonly step: string;
  readonly output: unknown;
}

/** `type` is the result's `kind`. */
export type SessionResultLine = ResultLineOf<SessionResult>;
type ResultLineOf<Result extends SessionResult> = Result extends SessionResult
  ? { readonly type: Result['kind'] } & Result
  : never;

export type SessionLine = SessionHeader | SessionResultLine | SessionOutputLine;
