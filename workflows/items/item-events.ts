/** Converts reports of an item's machine to the names of the stage with the items. */
import type { MachineEvent } from '../../domain/pipeline/event.ts';
import { type InstancePath, formatStageName } from '../../domain/run/instance.ts';
import type { StageFailure } from '../../domain/run/stage-result.ts';

/** Puts the stage in front of the message, unless the message names it. */
export function failureWithin(stage: string, instance: InstancePath, failure: StageFailure): StageFailure {
  const { message } = failure;
  return message.includes(stage) || message.includes(formatStageName(stage, instance))
    ? failure
    : { ...failure, message: `stage ${stage}: ${message}` };
}

export function attemptOf(innerKey: string): number {
  return Number(innerKey.slice(innerKey.lastIndexOf('/') + 1));
}

/** Replaces the exec key, because the machine of an item knows only numbers of attempts. */
export function withKey(event: MachineEvent, execKey: string): MachineEvent {
  if (event.type === 'stage-finished') return { ...event, result: { ...event.result, execKey } };
  return 'execKey' in event ? { ...event, execKey } : event;
}

/** The most questions in the details of the workflow. */
const SHOWN_QUESTIONS = 8;

/** @returns a text that begins with `; `, or nothing if no stage asks */
export function describeQuestions(asking: readonly string[]): string {
  if (asking.length === 0) return '';
  const more = asking.length > SHOWN_QUESTIONS ? `, and ${asking.length - SHOWN_QUESTIONS} more` : '';
  return `; waiting for answers: ${asking.slice(0, SHOWN_QUESTIONS).join(', ')}${more}`;
}
