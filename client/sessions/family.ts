/** Combines a session and the sessions of the sub-skills that it calls, so that clients see and answer one session. */
import type { SessionView } from '../../activities/contract-session.ts';
import type { SessionResult, OpenStep, PromptResult } from '../../domain/step-machine/result.ts';

export interface GivenAnswer {
  readonly turn: number;
  /** With the prefix of its sub-skill. */
  readonly step: string;
  readonly output: unknown;
}

/** Prefixes the steps of a result, so that they are the addresses that clients of the caller use. */
export function prefixResult(result: SessionResult, prefix: string): SessionResult {
  if (result.kind === 'done' || result.kind === 'redirect') return result;
  const named = { ...result, step: prefix + result.step };
  if (named.kind !== 'prompt') return named;
  const completed =
    named.completed === undefined ? {} : { completed: { ...named.completed, step: prefix + named.completed.step } };
  const open =
    named.open === undefined ? {} : { open: named.open.map((one): OpenStep => ({ ...one, step: prefix + one.step })) };
  return { ...named, ...completed, ...open };
}

export function prefixView(view: SessionView, prefix: string): SessionView {
  return {
    ...view,
    current: view.current === null ? null : prefixResult(view.current, prefix),
    open: view.open.map((one) => ({ ...one, step: prefix + one.step })),
    last: view.last === null ? null : { ...view.last, step: prefix + view.last.step },
  };
}

/** @param inner  with its addresses; null while it is not there */
export function joinViews(view: SessionView, inner: SessionView | null): SessionView {
  if (inner === null) return view;
  const { current } = view;
  const isAsking = current?.kind === 'prompt';
  const isInner =
    inner.current?.kind === 'prompt' || current === null || (current.kind === 'error' && current.error === 'busy');
  return {
    ...view,
    current: isAsking ? withOpen(current, promptsIn(inner.current)) : isInner ? inner.current : current,
    open: [...view.open, ...inner.open],
    last: isAsking ? view.last : (inner.last ?? view.last),
  };
}

function promptsIn(result: SessionResult | null): readonly OpenStep[] {
  if (result?.kind !== 'prompt' || result.turn === undefined) return [];
  const { step, prompt, schema, turn, open = [] } = result;
  return [{ step, prompt, schema, turn }, ...open];
}

function withOpen(result: PromptResult, others: readonly OpenStep[]): PromptResult {
  const open = [
    ...(result.open ?? []),
    ...others.filter(({ step }) => step !== result.step && !result.open?.some((one) => one.step === step)),
  ];
  return open.length === 0 ? result : { ...result, open };
}

/** Whether others may know more than the session that answered. Most sessions call nothing, and are not asked. */
export function mayConcernOthers(given: GivenAnswer | null, result: SessionResult): boolean {
  if (result.kind === 'waiting') return true;
  if (result.kind === 'error') return given !== null && result.error === 'order';
  return result.kind === 'prompt' && (result.step.includes('/') || given?.step.includes('/') === true);
}

/** Returns the answer of one member as the whole family sees it. @param view  of the whole family */
export function resolveInFamily(
  { current, open, childSessions, status }: SessionView,
  given: GivenAnswer | null,
  result: SessionResult,
): SessionResult {
  if (childSessions.length === 0 || status !== 'open') return result;
  if (result.kind === 'prompt') return withOpen(result, promptsIn(current));
  if (result.kind === 'waiting') {
    const { completed, autoAdvanced } = result;
    return current?.kind === 'prompt'
      ? { ...current, ...(completed && { completed }), ...(autoAdvanced && { autoAdvanced }) }
      : result;
  }
  if (given === null || result.kind !== 'error') return result;
  const due = open
    .filter(({ phase }) => phase === 'asking' || phase === 'stuck')
    .map((one) => `turn ${one.turn} of step "${one.step}"`);
  if (due.length === 0) return result;
  const { step, turn } = given;
  const what = open.some((one) => one.step === step)
    ? `Turn ${turn} of step "${step}" is not current: it was answered before, or never asked.`
    : `Step "${step}" is not the current step.`;
  return { ...result, message: `${what} Due: ${due.join(', ')}.` };
}
