/**
 * Sessions without memory: the client carries the history and sends it with each answer. The machine counts and saves
 * the history again, but trusts it: actions do not run, observers are not called, and order is not checked.
 */
import type { Draft } from './draft.ts';
import type { Cursor } from './state.ts';
import { isStep, limitReached } from './moves.ts';
import { answer, begin, enterPhase } from './visit.ts';

export interface HistoryEntry {
  readonly step: string;
  readonly response: unknown;
  readonly actionResult?: unknown;
}

/** Returns the entry, or null if the value is not an entry. */
export function readEntry(value: unknown): HistoryEntry | null {
  if (
    typeof value !== 'object' ||
    value === null ||
    !('step' in value) ||
    !('response' in value) ||
    typeof value.step !== 'string'
  )
    return null;
  const { step, response } = value;
  return 'actionResult' in value ? { step, response, actionResult: value.actionResult } : { step, response };
}

/** Splits `a/b/step` into `a/b` and `step`. */
export function splitAddress(address: string): readonly [path: string, step: string] {
  const at = address.lastIndexOf('/');
  return at < 0 ? ['', address] : [address.slice(0, at), address.slice(at + 1)];
}

export function replayEntry(draft: Draft, entry: HistoryEntry): void {
  const [path, step] = splitAddress(entry.step);
  const frame = frameAt(draft, path);
  if (frame === null || !isStep(draft.skillOf(frame), step))
    return draft.warn(`skipping history entry of unknown step "${entry.step}"`);
  const cursor = findParked(draft, frame, step) ?? jumpTo(draft, frame, step);
  if (cursor.phase.kind === 'calling') dropBelow(draft, draft.frame(cursor.phase.frame).prefix);
  const replay = entry.actionResult === undefined ? {} : { actionResult: entry.actionResult };
  const replayed = draft.setCursor(cursor.id, { replay });
  answer(draft, replayed, entry.response);
}

/** Opens the sub-skill that `path` names within open frames; the driver answers with its params. */
export function openReplayed(draft: Draft, path: string): void {
  const [parentPath, name] = splitAddress(path);
  const parent = frameAt(draft, parentPath);
  if (parent === null || frameAt(draft, path) !== null) return;
  const skill = draft.skillOf(parent);
  const call = isStep(skill, name) ? skill.steps[name]!.call : null;
  if (call !== null) {
    const caller = findParked(draft, parent, name) ?? jumpTo(draft, parent, name);
    return enterPhase(draft, draft.setCursor(caller.id, { replay: {} }), {
      kind: 'starting-child',
      subskill: call,
      response: {},
      returns: true,
    });
  }
  if (!Object.hasOwn(skill.subskills, name)) return draft.warn(`skipping history of unknown sub-skill "${path}"`);
  const prefix = draft.frame(parent).prefix;
  const { items, length } = draft.state.records;
  const last = items.slice(0, length).findLast((record) => record.frame === parent);
  const step = last === undefined ? skill.entry : last.step.slice(prefix.length);
  const cursor = jumpTo(draft, parent, step);
  enterPhase(draft, cursor, { kind: 'starting-child', subskill: name, response: last?.response ?? {}, returns: false });
}

/**
 * Makes a step current because the client answers it next. Other steps that the replay left in other branches become
 * current too.
 */
export function place(draft: Draft, address: string): void {
  if (draft.isOver) return;
  draft.set({ status: { kind: 'open' } });
  const [path, step] = splitAddress(address);
  const frame = frameAt(draft, path);
  if (frame === null || !isStep(draft.skillOf(frame), step)) return;
  const cursor = findParked(draft, frame, step) ?? jumpTo(draft, frame, step);
  const placed = draft.setCursor(cursor.id, { replay: null });
  const excess = limitReached(draft, frame, step);
  if (excess !== null) return draft.fail(placed, 'CycleGuardError', excess);
  draft.setFrame(frame, { introduced: true });
  for (const other of draft.cursors()) {
    if (other.id === cursor.id) continue;
    const live = draft.setCursor(other.id, { replay: null });
    if (live.phase.kind === 'parked') begin(draft, live);
  }
  if (draft.stepOf(placed).wait !== null) return begin(draft, placed);
  const { call } = draft.stepOf(placed);
  if (call !== null) {
    // No client answers this step: naming it starts its sub-skill again.
    const at = { kind: 'starting-child', subskill: call, response: {}, returns: true } as const;
    draft.setPhase(placed.id, {
      kind: 'stuck',
      at,
      error: { name: 'Error', message: `sub-skill "${call}" has not returned` },
    });
    return;
  }
  draft.setPhase(placed.id, { kind: 'asking' });
}

function frameAt(draft: Draft, path: string): number | null {
  const prefix = path === '' ? '' : `${path}/`;
  return draft.state.frames.find((frame) => frame.prefix === prefix)?.id ?? null;
}

function findParked(draft: Draft, frame: number, step: string): Cursor | undefined {
  return draft.cursors().find((cursor) => cursor.frame === frame && cursor.step === step);
}

/**
 * Follows the history even if the engine expected another step: the expected steps in that frame and its sub-skills are
 * dropped.
 */
function jumpTo(draft: Draft, frame: number, step: string): Cursor {
  const { prefix } = draft.frame(frame);
  for (const cursor of draft.cursors()) {
    if (cursor.frame !== frame) continue;
    if (cursor.phase.kind === 'calling') dropBelow(draft, draft.frame(cursor.phase.frame).prefix);
    draft.dropCursor(cursor.id);
  }
  for (const group of draft.groups()) if (group.frame === frame) draft.dropGroup(group.id);
  for (const deeper of draft.frames())
    if (deeper.prefix !== prefix && deeper.prefix.startsWith(prefix)) dropBelow(draft, deeper.prefix);
  return draft.addCursor({ frame, step, group: null, request: null, depth: 0, phase: { kind: 'parked' }, replay: {} });
}

/** Drops the frames with that prefix, and the current steps in them. */
function dropBelow(draft: Draft, prefix: string): void {
  for (const frame of draft.frames()) {
    if (!frame.prefix.startsWith(prefix)) continue;
    for (const cursor of draft.cursors()) if (cursor.frame === frame.id) draft.dropCursor(cursor.id);
    for (const group of draft.groups()) if (group.frame === frame.id) draft.dropGroup(group.id);
    draft.dropFrame(frame.id);
  }
}
