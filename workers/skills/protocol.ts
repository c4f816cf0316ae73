/**
 * The messages between a worker and a skill's process: one JSON object a line, requests on the child's standard input,
 * answers on its descriptor 3. Standard output and error belong to the author.
 */
import type { Observation, TurnOutcome } from '../../activities/contract-session.ts';
import type { Command } from '../../domain/step-machine/command.ts';
import type { Handshake } from '../../domain/step-machine/definition.ts';
import type { SessionEventBody } from '../../domain/step-machine/event.ts';
import type { SkillFacts } from '../../domain/step-machine/facts.ts';
import type { SessionState } from '../../domain/step-machine/state.ts';

export const ANSWER_FD = 3;

interface SkillScoped {
  /** Names of sub-skills. */
  readonly path: readonly string[];
}

/** The variables that the code sees during this request, in addition to those that every program needs. */
interface WithVariables {
  readonly variables: Readonly<Record<string, string>>;
}

export type ChildRequest =
  /** `params` null: the params of `checked` are used. */
  | ({
      readonly op: 'open';
      readonly params: unknown;
      readonly checked: boolean;
      readonly subskill?: string;
    } & SkillScoped)
  | ({
      readonly op: 'turn';
      readonly state: SessionState;
      readonly event: SessionEventBody;
      readonly handshake: Partial<Handshake>;
      /** Folder of the session's records. */
      readonly recordsDir: string;
    } & SkillScoped &
      WithVariables)
  | ({
      readonly op: 'act';
      readonly state: SessionState;
      readonly command: Extract<Command, { readonly type: 'run-action' }>;
      readonly handshake: Partial<Handshake>;
      readonly recordsDir: string;
    } & SkillScoped &
      WithVariables)
  | ({
      readonly op: 'observe';
      readonly event: Observation;
      /** The folder of the session's files, which records the last event that its observers handled. */
      readonly recordsDir: string;
    } & SkillScoped &
      WithVariables);

/** Ends the running action. */
export interface AbortRequest {
  readonly op: 'abort';
}

/** The message that the child sends once, after it has loaded the skill. */
export interface ChildHello {
  readonly name: string;
  readonly version: string;
  /** Variables that the skill and its sub-skills declare. */
  readonly env: readonly string[];
}

export interface OpenAnswer {
  readonly facts: SkillFacts;
  readonly params: unknown;
  readonly observers: readonly string[];
}

/** The answer to a turn. It also contains the migrated state if other code opened the session. */
export interface TurnAnswer {
  readonly outcome: Exclude<TurnOutcome, { readonly kind: 'crashed' }>;
  readonly migrated?: { readonly open: OpenAnswer; readonly state: SessionState; readonly event: SessionEventBody };
}

export type FailedCode = 'skill/params' | 'skill/unusable' | 'session/foreign';

export type ChildAnswer =
  | { readonly hello: ChildHello }
  | { readonly ok: unknown }
  /** `kind` names the error code; without one it is the author's doing or a bug. */
  | { readonly failed: string; readonly code?: FailedCode };
