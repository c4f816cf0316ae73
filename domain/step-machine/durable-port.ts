/**
 * Durable sessions of one skill, as its own transports ask for them. Behind it stands whatever holds the way to a Temporal server:
 * a transport may be part of a bundle that holds none, and takes the door of an installed Voidbox when it runs.
 */
import type { Handshake } from './definition.ts';
import type { SessionResult } from './result.ts';

/** Of the calls below. A door of another number is refused by name. */
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
  /** Refuse it when as many sessions of the skill are open, as far as the server's list of them knows. */
  readonly atMost?: number;
}

export interface DurableAnswer {
  readonly step: string;
  readonly output: unknown;
  /** Default: the turn of the step that is open, or its last one, so that an answer that is sent again gets what it got. */
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

/** The stack is started when it is not running, and looked for again when it has died. */
export interface DurableSessions {
  start(request: DurableStart): Promise<DurableReply>;
  /** Without an answer: how the session stands, once nobody works on it. */
  advance(session: string, answer?: DurableAnswer): Promise<DurableReply>;
  /** False when it had ended before. */
  cancel(session: string): Promise<boolean | Extract<DurableReply, { readonly kind: 'refused' }>>;
}

export interface DurableDoor {
  readonly DURABLE_DOOR: number;
  /** False or absent in earlier ones, which look at the environment themselves. */
  readonly TAKES_VARIABLES?: boolean;
  /** @param variables  those that the caller's process was started with: it withholds them from the skill's code */
  openDurableSessions(
    skill: DurableSkill,
    onProgress: (line: string) => void,
    variables?: Readonly<Record<string, string | undefined>>,
  ): DurableSessions;
}
