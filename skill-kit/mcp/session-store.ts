/**
 * The interface of an MCP server's sessions. Sessions in memory end with the server; durable sessions implement the
 * same calls.
 */
import type { Handshake } from '../../domain/step-machine/definition.ts';
import type { DurableRefusal } from '../../domain/step-machine/durable-port.ts';
import type { SessionResult } from '../../domain/step-machine/result.ts';

export interface StartRequest {
  readonly params?: unknown;
  /** Starts that sub-skill on its own. */
  readonly subskill?: string;
  readonly handshake: Handshake;
}

export interface StepAnswer {
  readonly step: string;
  readonly output: unknown;
  /** Refuse the answer when the session has gone on since that turn. */
  readonly turn?: number;
}

/**
 * - `unknown`: there is no session of that name.
 * - `expired`: it was idle for too long.
 * - `finished`: it has ended; the answer came too late.
 * - `full`: as many sessions are open as the store keeps.
 * - `exists`, `unavailable`, `params`: of durable ones, see the port.
 */
export type Refusal = 'expired' | 'finished' | DurableRefusal;

export type SessionReply =
  | { readonly kind: 'answered'; readonly session: string; readonly result: SessionResult }
  | { readonly kind: 'refused'; readonly refusal: Refusal; readonly message: string; readonly remedy: string };

export interface SessionStore {
  /** The params have been checked. */
  start(request: StartRequest): Promise<SessionReply>;
  /** Without an answer, returns the session's state, once no call works on it. */
  advance(session: string, answer?: StepAnswer): Promise<SessionReply>;
  /** Ends what lives only here, and fires the signals of actions that are under way. */
  close(): Promise<void>;
}
