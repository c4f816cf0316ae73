/**
 * What a worker and a skill's process say to each other: one JSON object a line, requests on the child's standard input,
 * answers on its descriptor 3. Standard output and error are the author's.
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

/** What the code sees while it works for this request, besides what every program needs. */
interface WithVariables {
  readonly variables: Readonly<Record<string, string>>;
}

export type ChildRequest =
  /** `params` null: those of `checked` are taken as they are. */
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
      /** Folder of the session's files: there stands how far its observers have been told. */
      readonly recordsDir: string;
    } & SkillScoped &
      WithVariables);

/** Ends the action that runs. */
export interface AbortRequest {
  readonly op: 'abort';
}

/** What the child says once, when it has loaded the skill. */
export interface ChildHello {
  readonly name: string;
  readonly version: string;
  /** Variables that it and its sub-skills declare. */
  readonly env: readonly string[];
}

export interface OpenAnswer {
  readonly facts: SkillFacts;
  readonly params: unknown;
  readonly observers: readonly string[];
}

/** Other code's session, before the event: what this code makes of it. */
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
