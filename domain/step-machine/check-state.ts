/**
 * Checks whether a value can be the state of a session, and whether a command can follow from it. States come from
 * workflows, which got them from the engine. A client of the server may also send one, so it is compared with the skill
 * before any code of the skill runs.
 */
import { isSha256 } from '../units/sha256.ts';
import type { Command } from './command.ts';
import { isPlain } from './deep-merge.ts';
import { skillAt } from './draft.ts';
import type { SkillFacts } from './facts.ts';
import type { Cursor, FrameState, SessionState } from './state.ts';

/** The most items in each list of a state. */
const MOST_ITEMS = 10_000;

type RunAction = Extract<Command, { readonly type: 'run-action' }>;

/** Returns the problem of its shape; null if it has no problem. Values from authors' callbacks may be anything. */
export function problemOfState(value: unknown, session: string): string | null {
  if (!isPlain(value)) return 'it is not an object';
  const state = value as Readonly<Record<keyof SessionState, unknown>>;
  if (state.format !== 1) return 'its format is not 1';
  if (state.session !== session) return 'it belongs to another session';
  if (!isText(state.skill) || !isText(state.version) || !(state.codeHash === null || isText(state.codeHash)))
    return 'it names no skill, version and code';
  for (const key of ['startedAtMs', 'nowMs', 'turn', 'nextFrame'] as const)
    if (!Number.isSafeInteger(state[key])) return `its ${key} is not a whole number`;
  for (const key of ['frames', 'cursors', 'groups', 'requests'] as const)
    if (!isList(state[key])) return `its ${key} are not a list of at most ${MOST_ITEMS} objects`;
  const frames = state.frames as readonly Partial<FrameState>[];
  for (const frame of frames) {
    const { id, skill, prefix, stores, visits, last } = frame;
    if (!Number.isSafeInteger(id) || typeof prefix !== 'string' || !Array.isArray(skill) || !skill.every(isText))
      return 'one of its frames is not valid';
    if (!isPlain(stores) || !isPlain(visits) || !isPlain(last))
      return 'one of its frames has no stores, visits and results';
  }
  for (const { id, frame, step, turn, phase } of state.cursors as readonly Partial<Cursor>[]) {
    if (!Number.isSafeInteger(id) || !Number.isSafeInteger(turn) || !isText(step) || !isPlain(phase))
      return 'one of its cursors is not valid';
    if (!frames.some((one) => one.id === frame)) return 'one of its cursors is not in any of its frames';
  }
  return problemOfRecords(state.records);
}

function problemOfRecords(value: unknown): string | null {
  if (!isPlain(value)) return 'it has no records';
  const { flushed, flushedRef, length, items } = value;
  if (
    !Number.isSafeInteger(flushed) ||
    !isList(items) ||
    !Number.isSafeInteger(length) ||
    (length as number) < 0 ||
    (length as number) > items.length
  )
    return 'the count of its records is wrong';
  return flushedRef === null || (typeof flushedRef === 'string' && isSha256(flushedRef))
    ? null
    : 'its older records have an invalid name';
}

/**
 * Explains why an action does not follow from the state and the skill; null if it does. The shape of `state` is already
 * checked.
 */
export function problemOfAction(facts: SkillFacts, state: SessionState, command: RunAction): string | null {
  const cursor = state.cursors.find(({ id }) => id === command.cursor);
  if (cursor === undefined || cursor.step !== command.step || cursor.frame !== command.frame)
    return 'the session has no current step at the place of the action';
  const { phase } = cursor;
  if (phase.kind !== 'acting' || phase.attempt !== command.attempt)
    return `step "${cursor.step}" is not at attempt ${command.attempt} of its action`;
  if (JSON.stringify(phase.response) !== JSON.stringify(command.response))
    return `the action of step "${cursor.step}" answers to something else than was answered`;
  const frame = state.frames.find(({ id }) => id === cursor.frame)!;
  if (!isPathIn(facts, frame.skill)) return `it has no sub-skill "${frame.skill.join('/')}"`;
  const { steps } = skillAt(facts, frame.skill);
  const step = Object.hasOwn(steps, cursor.step) ? steps[cursor.step]! : null;
  if (step?.action !== true) return `step "${cursor.step}" has no action`;
  if (command.timeoutMs !== step.timeoutMs) return `the action of step "${cursor.step}" has another time limit`;
  const key = `${state.session}/${cursor.turn}/`;
  return typeof command.idempotencyKey === 'string' && command.idempotencyKey.startsWith(key)
    ? null
    : `the idempotency key of step "${cursor.step}" is not its turn's`;
}

function isPathIn(facts: SkillFacts, path: readonly string[]): boolean {
  let at = facts;
  for (const name of path) {
    if (!Object.hasOwn(at.subskills, name)) return false;
    at = at.subskills[name]!;
  }
  return true;
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}

function isList(value: unknown): value is readonly Readonly<Record<string, unknown>>[] {
  return Array.isArray(value) && value.length <= MOST_ITEMS && value.every(isPlain);
}
