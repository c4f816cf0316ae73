/** The activity of schedules. Every client of the server can call it with any argument. */
import { Context } from '@temporalio/activity';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { ScheduleActivities, ScheduledCall } from '../contract-schedule.ts';
import { toActivityFailure } from '../failure.ts';
import type { ScheduleDoor } from '../ports/schedule-door.ts';

const TEXTS = ['owner', 'deployment', 'trigger', 'firing'] as const;
const TIMES = ['atMs', 'firedAtMs'] as const;

export function createScheduleActivities(door: ScheduleDoor): ScheduleActivities {
  return {
    async sendTime(call) {
      try {
        await door.send(readCall(call), Context.current().cancellationSignal);
      } catch (error) {
        throw toActivityFailure(error);
      }
    },
  };
}

/** @throws CodedError `call/refused` */
export function readCall(call: unknown): ScheduledCall {
  const given = (call ?? {}) as Partial<Record<string, unknown>>;
  const isCall =
    TEXTS.every((name) => typeof given[name] === 'string') && TIMES.every((name) => Number.isSafeInteger(given[name]));
  if (!isCall) throw new CodedError('call/refused', 'the call does not name a time of a schedule');
  const { owner, deployment, trigger, firing, atMs, firedAtMs } = given as unknown as ScheduledCall;
  return { owner, deployment, trigger, firing, atMs, firedAtMs };
}
