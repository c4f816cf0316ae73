/** What happens after a visit: the next step, the end, a redirect, the start and the join of parallel steps. */
import type { Draft, Outcome } from './draft.ts';
import { IMPLICIT_MAX_VISITS, type SkillFacts } from './facts.ts';
import { recordsOf } from './records.ts';
import { ownCount, type Cursor } from './state.ts';
import { continueAfterAction, enter, enterPhase } from './visit.ts';
import { TERMINAL_NAME } from './definition.ts';

/** Moves on from a recorded visit. */
export function leave(draft: Draft, cursor: Cursor, outcome: Outcome): void {
  const { next, parallel } = draft.stepOf(cursor);
  if (parallel !== null) return fork(draft, cursor, parallel);
  // A replay only counts visits. With parallel steps it also has to know the place of each branch.
  if (cursor.replay !== null && !isAmongBranches(draft, cursor)) return draft.dropCursor(cursor.id);
  if (next.kind === 'to') return moveTo(draft, cursor, next.to, outcome);
  if (next.kind === 'choose') return enterPhase(draft, cursor, { kind: 'choosing', ...outcome });
  finish(draft, cursor, outcome);
}

/** Whether there may be parallel steps in this skill, or in a skill that called it. */
function isAmongBranches(draft: Draft, cursor: Cursor): boolean {
  for (let frame = draft.frame(cursor.frame); ;) {
    if (draft.skillOf(frame.id).hasParallel) return true;
    const caller = frame.returnTo === null ? undefined : draft.cursor(frame.returnTo);
    if (caller === undefined) return false;
    frame = draft.frame(caller.frame);
  }
}

export function moveTo(draft: Draft, cursor: Cursor, target: unknown, outcome: Pick<Outcome, 'response'>): void {
  if (typeof target !== 'string') {
    return draft.fail(
      cursor,
      'Error',
      `Step "${draft.addressOf(cursor)}": next returned ${target === null ? 'null' : typeof target}, not the name of a step.`,
    );
  }
  const to = admit(draft, cursor, target === 'self' ? cursor.step : target);
  if (to === null) return;
  if (cursor.group !== null && draft.group(cursor.group).join === to) return arrive(draft, cursor);
  if (isStep(draft.skillOf(cursor.frame), to)) {
    emitTransition(draft, cursor, to, 'next');
    draft.dropCursor(cursor.id);
    return enter(
      draft,
      { frame: cursor.frame, step: to, group: cursor.group, request: cursor.request, depth: cursor.depth },
      cursor,
    );
  }
  redirect(draft, cursor, to, outcome.response);
}

/**
 * Returns the target, or the target that `onMaxVisits` replaces it with. Returns null if the limit has no fallback and
 * the session has failed.
 */
function admit(draft: Draft, cursor: Cursor, target: string): string | null {
  const skill = draft.skillOf(cursor.frame);
  const refused = new Set<string>();
  for (let to = target; ;) {
    const join = cursor.group === null ? null : draft.group(cursor.group).join;
    if (!isStep(skill, to) || to === join) return to;
    const excess = limitReached(draft, cursor.frame, to);
    if (excess === null) return to;
    const fallback = skill.steps[to]!.onMaxVisits;
    refused.add(to);
    const instead = fallback === 'self' ? to : fallback;
    if (instead === null || refused.has(instead)) {
      failGuard(draft, cursor, excess);
      return null;
    }
    to = instead;
  }
}

function failGuard(draft: Draft, cursor: Cursor, message: string): void {
  if (cursor.replay === null) return draft.fail(cursor, 'CycleGuardError', message);
  draft.warn(`history goes past a limit: ${message}`);
  draft.dropCursor(cursor.id);
}

/**
 * Explains why this step cannot be visited again; null if it can. Only the step's own limit and its own visits count.
 */
export function limitReached(draft: Draft, frame: number, name: string): string | null {
  const { maxVisits, inCycle } = draft.skillOf(frame).steps[name]!;
  const visits = ownCount(draft.frame(frame).visits, name);
  if (maxVisits !== null) {
    return visits < maxVisits
      ? null
      : `Step "${name}" exceeded maxVisits (${maxVisits}). Set onMaxVisits to define a fallback transition.`;
  }
  if (!inCycle || visits < IMPLICIT_MAX_VISITS) return null;
  return `Step "${name}" exceeded implicit cycle limit (${IMPLICIT_MAX_VISITS} visits). Add explicit maxVisits and onMaxVisits to control this behavior.`;
}

function fork(
  draft: Draft,
  cursor: Cursor,
  parallel: { readonly branches: readonly string[]; readonly join: string },
): void {
  draft.dropCursor(cursor.id);
  const id = draft.nextTurn();
  draft.setGroup({
    id,
    frame: cursor.frame,
    join: parallel.join,
    open: parallel.branches.length,
    parent: cursor.group,
  });
  const inside: Cursor = { ...cursor, group: id };
  for (const branch of parallel.branches) {
    if (draft.isOver) return;
    const to = admit(draft, inside, branch);
    if (to === null) return;
    if (!isStep(draft.skillOf(cursor.frame), to)) {
      return draft.fail(
        cursor,
        'Error',
        `Branch "${branch}" of the parallel step "${draft.addressOf(cursor)}" leads to "${to}", which is not a step.`,
      );
    }
    emitTransition(draft, cursor, to, 'next');
    if (to === parallel.join) draft.setGroup({ ...draft.group(id), open: draft.group(id).open - 1 });
    else
      enter(draft, { frame: cursor.frame, step: to, group: id, request: cursor.request, depth: cursor.depth }, cursor);
  }
  if (!draft.isOver && draft.hasGroup(id) && draft.group(id).open === 0) join(draft, inside);
}

function arrive(draft: Draft, cursor: Cursor): void {
  const group = draft.group(cursor.group!);
  emitTransition(draft, cursor, group.join, 'next');
  draft.dropCursor(cursor.id);
  draft.setGroup({ ...group, open: group.open - 1 });
  if (group.open === 1) join(draft, cursor);
}

/** Runs the join step, with the surroundings of the parallel step, once all branches have ended. */
function join(draft: Draft, last: Cursor): void {
  const group = draft.group(last.group!);
  draft.dropGroup(group.id);
  const outside: Cursor = { ...last, group: group.parent };
  const to = admit(draft, outside, group.join);
  if (to === null) return;
  if (outside.group !== null && draft.group(outside.group).join === to) {
    draft.setGroup({ ...draft.group(outside.group), open: draft.group(outside.group).open - 1 });
    if (draft.group(outside.group).open === 0) join(draft, outside);
    return;
  }
  if (!isStep(draft.skillOf(last.frame), to))
    return draft.fail(last, 'Error', `The join "${group.join}" leads to "${to}", which is not a step.`);
  enter(draft, { frame: last.frame, step: to, group: group.parent, request: last.request, depth: last.depth }, last);
}

function redirect(draft: Draft, cursor: Cursor, target: string, response: unknown): void {
  const skill = draft.skillOf(cursor.frame);
  const [kind, name] = splitTarget(target);
  const isKnown =
    kind === 'subskill' ? Object.hasOwn(skill.subskills, name) : kind === 'topic' && skill.topics.includes(name);
  if (!isKnown && (kind === null || draft.state.options.followRedirects))
    return draft.fail(cursor, 'Error', describeUnknownTarget(draft, cursor, kind, name, target));
  if (cursor.group !== null) {
    return draft.fail(
      cursor,
      'Error',
      `Step "${draft.addressOf(cursor)}" leaves for "${target}" from within parallel steps; use a step with \`call\`, which comes back.`,
    );
  }
  emitTransition(draft, cursor, target, 'redirect');
  if (
    cursor.replay !== null &&
    (kind === 'topic' || !draft.state.options.followRedirects || !isAmongBranches(draft, cursor))
  )
    return draft.dropCursor(cursor.id);
  if (!draft.state.options.followRedirects) return draft.end({ kind: 'redirected', redirect: target });
  if (kind === 'topic') return enterPhase(draft, cursor, { kind: 'rendering-topic', topic: name });
  enterPhase(draft, cursor, { kind: 'starting-child', subskill: name, response, returns: false });
}

function describeUnknownTarget(
  draft: Draft,
  cursor: Cursor,
  kind: string | null,
  name: string,
  target: string,
): string {
  const { subskills, topics, steps } = draft.skillOf(cursor.frame);
  if (kind === 'subskill') return `Redirect to unknown sub-skill "${name}". Known: ${list(Object.keys(subskills))}.`;
  if (kind === 'topic') return `Redirect to unknown topic "${name}". Known: ${list(topics)}.`;
  const at = draft.addressOf(cursor);
  return `Step "${at}": unknown target "${target}". Unknown redirect target "${target}" — expected subskill:<name> or topic:<name>, or a step: ${list(Object.keys(steps))}.`;
}

function list(names: readonly string[]): string {
  return names.length === 0 ? 'none' : names.join(', ');
}

/** Splits `subskill:x` and `topic:x`; returns `[null, target]` for any other target. */
export function splitTarget(target: string): readonly ['subskill' | 'topic' | null, string] {
  if (target.startsWith('subskill:')) return ['subskill', target.slice('subskill:'.length)];
  if (target.startsWith('topic:')) return ['topic', target.slice('topic:'.length)];
  return [null, target];
}

export function finish(
  draft: Draft,
  cursor: Cursor,
  { response, result: finalOutput }: Pick<Outcome, 'response' | 'result'>,
): void {
  if (cursor.replay !== null) return draft.dropCursor(cursor.id);
  if (cursor.group !== null) {
    return draft.fail(
      cursor,
      'Error',
      `Step "${draft.addressOf(cursor)}" ends the skill from within parallel steps; a branch ends at the join "${draft.group(cursor.group).join}".`,
    );
  }
  emitTransition(draft, cursor, TERMINAL_NAME, 'terminal');
  if (draft.skillOf(cursor.frame).finalOutput)
    return enterPhase(draft, cursor, { kind: 'finishing', finalOutput, response });
  complete(draft, cursor, finalOutput);
}

/** Ends a skill: the session is done, or the step that called the skill continues. */
export function complete(draft: Draft, cursor: Cursor, finalOutput: unknown): void {
  const frame = draft.frame(cursor.frame);
  const { records } = draft.state;
  const path: string[] = [];
  for (const { step, frame: of } of recordsOf(records, (frame.firstRecord ?? 0) - records.flushed))
    if (of === frame.id) path.push(step.slice(frame.prefix.length));
  draft.emit(frame.id, 'onSkillComplete', { path, finalOutput, durationMs: draft.atMs - frame.startedAtMs });
  if (frame.returnTo === null) return draft.end({ kind: 'done', finalOutput });
  draft.dropCursor(cursor.id);
  draft.dropFrame(frame.id);
  const caller = draft.setCursor(frame.returnTo, { request: cursor.request, depth: cursor.depth });
  continueAfterAction(draft, caller, Object.freeze({}), { actionResult: finalOutput }, []);
}

/** Makes a frame for a sub-skill whose params are known. */
export function startChild(draft: Draft, cursor: Cursor, params: unknown): void {
  if (cursor.phase.kind !== 'starting-child') return;
  const { subskill, returns } = cursor.phase;
  const parent = draft.frame(cursor.frame);
  const frame = draft.addFrame({
    skill: [...parent.skill, subskill],
    prefix: `${parent.prefix}${returns ? cursor.step : subskill}/`,
    params,
    stores: {},
    visits: {},
    last: {},
    startedAtMs: draft.atMs,
    firstRecord: draft.state.records.flushed + draft.state.records.length,
    introduced: cursor.replay !== null,
    returnTo: returns ? cursor.id : parent.returnTo,
  });
  if (returns) draft.setPhase(cursor.id, { kind: 'calling', frame });
  else {
    draft.dropCursor(cursor.id);
    draft.dropFrame(parent.id);
    if (parent.returnTo !== null) draft.setPhase(parent.returnTo, { kind: 'calling', frame });
  }
  enter(
    draft,
    { frame, step: draft.skillOf(frame).entry, group: null, request: cursor.request, depth: cursor.depth },
    cursor,
  );
}

function emitTransition(draft: Draft, cursor: Cursor, to: string, reason: 'next' | 'redirect' | 'terminal'): void {
  if (cursor.replay === null) draft.emit(cursor.frame, 'onTransition', { from: cursor.step, to, reason });
}

export function isStep(skill: SkillFacts, name: string): boolean {
  return Object.hasOwn(skill.steps, name);
}
