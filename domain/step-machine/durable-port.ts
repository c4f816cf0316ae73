/**
 * Durable sessions of one skill, as the skill's own transports use them. The implementation holds the connection to a
 * Temporal server. A transport may be part of a bundle without such a connection; it then uses the door of an installed
 * Voidbox.
 */
import type { Handshake } from './definition.ts';
import type { SessionResult } from './result.ts';

/** The version of the calls below. A transport rejects a door of another version by its number. */
export const DURABLE_DOOR = 1;

export interface DurableSkill {
  readonly name: string;
  readonly version: string;
  /** Absolute path of the script or file that workers load the skill from. */
  readonly entry: string;
}

export interface DurableStart {
  /** Default: a new id. */
  readonly session?: string;
  readonly params?: unknown;
  readonly subskill?: string;
  readonly handshake?: Handshake;
  /** Refuses the start if this many sessions of the skill are open, as far as the server's list of sessions shows. */
  readonly atMost?: number;
}

export interface DurableAnswer {
  readonly step: string;
  readonly output: unknown;
  /** Default: the turn of the open step, or else its last turn. So an answer that is sent again gets the same reply. */
  readonly turn?: number;
}

/**
 * - `unknown`: this skill has no session of that name.
 * - `exists`: another session has the id.
 * - `unavailable`: no server, no worker, or not this skill's code on it.
 * - `params`: they do not fit the skill.
 * - `full`: as many are open as may be.
 */
export type DurableRefusal = 'unknown' | 'exists' | 'unavailable' | 'params' | 'full';

export type DurableReply =
  | { readonly kind: 'answered'; readonly session: string; readonly result: SessionResult }
  | { readonly kind: 'refused'; readonly refusal: DurableRefusal; readonly message: string; readonly remedy: string };

/** Starts the stack if it does not run, and finds it again if it has died. */
export interface DurableSessions {
  start(request: DurableStart): Promise<DurableReply>;
  /** Without an answer: returns the state of the session once it waits. */
  advance(session: string, answer?: DurableAnswer): Promise<DurableReply>;
  /** False if it had already ended. */
  cancel(session: string): Promise<boolean | Extract<DurableReply, { readonly kind: 'refused' }>>;
}

export interface DurableDoor {
  readonly DURABLE_DOOR: number;
  /** False or absent in earlier doors, which read the environment themselves. */
  readonly TAKES_VARIABLES?: boolean;
  /**
   * @param variables  the variables that the caller's process was started with; the caller withholds them from the
   * skill's code
   */
  openDurableSessions(
    skill: DurableSkill,
    onProgress: (line: string) => void,
    variables?: Readonly<Record<string, string | undefined>>,
  ): DurableSessions;
}
