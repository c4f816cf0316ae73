/** Commands of the engine, in order. A command with a cursor is answered by one event, or by `threw`. */
import type { ObserverName } from './definition.ts';
import type { SessionResult } from './result.ts';

interface AtStep {
  readonly cursor: number;
  readonly frame: number;
  /** The name of the step without prefix. */
  readonly step: string;
}
interface WithAnswer extends AtStep {
  readonly response: unknown;
  readonly actionResult?: unknown;
}

export type Command =
  /** Answer: `rendered`. `introduce`: with the skill's preamble. `attempts`: completed visits. */
  | ({ readonly type: 'render-prompt'; readonly attempts: number; readonly introduce: boolean } & AtStep)
  /** Answer: `validated`. */
  | ({ readonly type: 'validate'; readonly value: unknown } & AtStep)
  /** Answer: `action-ended`. The same key is never used for another visit. */
  | ({
      readonly type: 'run-action';
      readonly response: unknown;
      readonly attempt: number;
      readonly idempotencyKey: string;
      readonly timeoutMs: number | null;
    } & AtStep)
  /** Answer: `saved`. */
  | ({ readonly type: 'save' } & WithAnswer)
  /** Answer: `chosen`. `attempts`: completed visits, this one included. */
  | ({ readonly type: 'choose-next'; readonly attempts: number } & WithAnswer)
  /** Answer: `measured`. */
  | ({ readonly type: 'measure-wait'; readonly attempts: number } & AtStep)
  /**
   * Answer: `timer-fired` when the time has come. It replaces the same cursor's timer of that reason, and may be
   * dropped when the cursor is gone.
   */
  | ({
      readonly type: 'wait';
      readonly reason: WaitReason;
      readonly durationMs: number;
      readonly dueMs: number;
    } & AtStep)
  /** Answer: `child-ready`; or, with `returns`, `child-ended` when the child runs elsewhere. */
  | ({
      readonly type: 'start-child';
      readonly subskill: string;
      readonly response: unknown;
      readonly returns: boolean;
    } & AtStep)
  /** Answer: `topic-rendered`. */
  | ({ readonly type: 'render-topic'; readonly topic: string } & AtStep)
  /** Answer: `final-checked`. `finalOutput` is the last step's result, `response` the answer to that step. */
  | ({ readonly type: 'check-final'; readonly finalOutput: unknown; readonly response: unknown } & AtStep)
  /**
   * No answer. Calls the observers of that skill, once for each fact. The `path` of `onSkillComplete` lacks records
   * that were flushed.
   */
  | {
      readonly type: 'emit';
      readonly skill: readonly string[];
      readonly frame: number;
      readonly observer: ObserverName;
      readonly payload: Readonly<Record<string, unknown>>;
    }
  /** No answer. Writes to the log, for people. */
  | { readonly type: 'warn'; readonly message: string }
  /** No answer. Fires the signals of these cursors' actions. */
  | { readonly type: 'abort'; readonly cursors: readonly number[]; readonly reason: string }
  /** No answer. The reply to the client of that request. */
  | { readonly type: 'reply'; readonly request: string; readonly result: SessionResult };

export type WaitReason = 'wait' | 'retry' | 'deadline';

/** Whether code of the skill's author runs in the command, so that a crash of that code is a crash of the command. */
export function isCallback(command: Command): boolean {
  switch (command.type) {
    case 'render-prompt':
    case 'validate':
    case 'save':
    case 'choose-next':
    case 'measure-wait':
    case 'start-child':
    case 'render-topic':
    case 'check-final':
      return true;
    case 'run-action':
    case 'wait':
    case 'emit':
    case 'warn':
    case 'abort':
    case 'reply':
      return false;
  }
}
