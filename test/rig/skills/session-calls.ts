/** The calls of a rig that tests of sessions use. */
import { setTimeout as sleep } from 'node:timers/promises';
import { advanceSession, startSession, viewSession } from '../../../client/sessions/sessions.ts';
import type { PromptResult, SessionResult } from '../../../domain/step-machine/result.ts';
import type { SessionRig } from './session-rig.ts';

export interface SessionCalls {
  /** @throws Error when it is no prompt */
  readonly prompt: (result: SessionResult) => PromptResult;
  readonly start: (session: string, skill: string, params?: unknown) => Promise<SessionResult>;
  readonly answer: (
    session: string,
    at: { readonly step: string; readonly turn?: number },
    output: unknown,
  ) => Promise<SessionResult>;
  readonly view: (session: string) => ReturnType<typeof viewSession>;
  readonly until: (what: string, holds: () => boolean | Promise<boolean>) => Promise<void>;
}

/** @param rigOf  asked at each call */
export function sessionCalls(rigOf: () => SessionRig): SessionCalls {
  const client = () => rigOf().runs.client;
  return {
    prompt(result) {
      if (result.kind === 'prompt') return result;
      throw new Error(`not a prompt: ${JSON.stringify(result)}\n${rigOf().log().slice(-2_000)}`);
    },
    start: (session, skill, params) =>
      startSession(client(), session, { skill, ...(params === undefined ? {} : { params }) }),
    answer: (session, { step, turn }, output) => advanceSession(client(), session, { step, turn: turn!, output }),
    view: (session) => viewSession(client(), session),
    async until(what, holds) {
      for (const end = Date.now() + 30_000; !(await holds());) {
        if (Date.now() > end) throw new Error(`not within 30 s: ${what}\n${rigOf().log()}`);
        await sleep(50);
      }
    },
  };
}
