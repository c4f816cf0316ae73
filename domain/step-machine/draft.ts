import type { Command } from './command.ts';
import type { ObserverName } from './definition.ts';
import type { SkillFacts, StepFacts } from './facts.ts';
import { append, type StepRecord } from './records.ts';
import type { ErrorKind } from './result.ts';
import {
  frameOf,
  type Cursor,
  type FrameState,
  type ParallelGroup,
  type Phase,
  type RequestState,
  type SessionState,
  type SessionStatus,
} from './state.ts';

/** The result of a visit. */
export interface Outcome {
  readonly response: unknown;
  readonly actionResult?: unknown;
  readonly result: unknown;
}

/**
 * A session's state during a transition: copies each changed part once, and collects commands. Between two calls of
 * `take` it writes to its copies, so a series of events needs only the copies of one event.
 */
export class Draft {
  readonly facts: SkillFacts;
  commands: Command[] = [];
  /** The time of the event that is being applied. */
  atMs: number;
  /** Visits that are recorded, but whose step is still current. */
  readonly recorded: { readonly cursor: number; readonly outcome: Outcome }[] = [];
  /** This draft owns the state only if `#isOwn` is true, and a list in it only if `#owned` names the list. */
  #state: Mutable<SessionState>;
  #isOwn = false;
  #owned = NOTHING_OWNED;
  /** Cursors that only this draft has seen; frames and requests are copied with each change. */
  readonly #ownCursors = new Set<Mutable<Cursor>>();

  constructor(facts: SkillFacts, before: SessionState) {
    this.facts = facts;
    this.#state = before;
    this.atMs = before.nowMs;
  }

  /** The present state, to read at once: later changes write to it. */
  get state(): SessionState {
    return this.#state;
  }

  /** The present state, to keep: later changes write to copies. */
  take(): SessionState {
    this.#isOwn = false;
    this.#owned = NOTHING_OWNED;
    this.#ownCursors.clear();
    return this.#state;
  }

  get isOver(): boolean {
    const { kind } = this.#state.status;
    return kind !== 'open' && kind !== 'new';
  }

  #ownState(): Mutable<SessionState> {
    if (!this.#isOwn) {
      this.#state = { ...this.#state };
      this.#isOwn = true;
    }
    return this.#state;
  }

  /** Begins the next event. */
  open(atMs: number): void {
    this.atMs = atMs;
    this.commands = [];
    this.#ownState().nowMs = atMs;
  }

  set(change: Partial<SessionState>): void {
    Object.assign(this.#ownState(), change);
    // Lists from outside may have other owners.
    for (const key of LISTS) if (key in change && this.#owned[key]) this.#owned = { ...this.#owned, [key]: false };
  }

  ask(command: Command): void {
    this.commands.push(command);
  }

  /** Returns the list for writing: a copy, the first time. */
  #own<K extends Lists>(key: K): SessionState[K][number][] {
    const list: readonly SessionState[K][number][] = this.#state[key];
    if (this.#owned[key]) return list as SessionState[K][number][];
    const own = [...list];
    this.#owned = { ...this.#owned, [key]: true };
    (this.#ownState() as Record<Lists, readonly unknown[]>)[key] = own;
    return own;
  }

  #put<K extends Lists>(key: K, item: SessionState[K][number]): void {
    const list = this.#own(key);
    const { id } = item;
    for (let at = 0; at < list.length; at++) {
      if (list[at]!.id !== id) continue;
      list[at] = item;
      return;
    }
    list.push(item);
  }

  #drop(key: Lists, id: number | string): void {
    const list = this.#own(key);
    const at = list.findIndex((item) => item.id === id);
    if (at >= 0) list.splice(at, 1);
  }

  // Frames

  frame(id: number): FrameState {
    return frameOf(this.#state, id);
  }

  /** Returns a copy of the list, so a caller can change frames during a loop. */
  frames(): readonly FrameState[] {
    return [...this.#state.frames];
  }

  setFrame(id: number, change: Partial<FrameState>): void {
    this.#put('frames', { ...this.frame(id), ...change });
  }

  addFrame(frame: Omit<FrameState, 'id'>): number {
    const id = this.#ownState().nextFrame++;
    this.#put('frames', { ...frame, id });
    return id;
  }

  /** The session's own frame stays, because its params and stores belong to the session. */
  dropFrame(id: number): void {
    if (id !== 0) this.#drop('frames', id);
  }

  skillOf(frame: number): SkillFacts {
    return skillAt(this.facts, this.frame(frame).skill);
  }

  stepOf(cursor: Cursor): StepFacts {
    return this.skillOf(cursor.frame).steps[cursor.step]!;
  }

  // Cursors

  cursor(id: number): Cursor | undefined {
    return this.#state.cursors.find((cursor) => cursor.id === id);
  }

  cursors(): readonly Cursor[] {
    return [...this.#state.cursors];
  }

  setCursor(id: number, change: Partial<Cursor>): Cursor {
    return Object.assign(this.#ownCursor(id), change);
  }

  setPhase(id: number, phase: Phase): Cursor {
    const cursor = this.#ownCursor(id);
    cursor.phase = phase;
    return cursor;
  }

  #ownCursor(id: number): Mutable<Cursor> {
    const cursor = this.cursor(id) as Mutable<Cursor>;
    return this.#ownCursors.has(cursor) ? cursor : this.#putCursor({ ...cursor });
  }

  #putCursor(cursor: Mutable<Cursor>): Mutable<Cursor> {
    this.#ownCursors.add(cursor);
    this.#put('cursors', cursor);
    return cursor;
  }

  addCursor({ frame, step, group, request, depth, phase, replay }: NewCursor): Cursor {
    const turn = this.nextTurn();
    const fresh = { enteredAtMs: this.atMs, invalid: 0, submitted: false, prompt: null, human: null, deadlineMs: null };
    return this.#putCursor({ id: turn, frame, step, turn, group, phase, depth, request, replay, ...fresh });
  }

  dropCursor(id: number): void {
    this.#drop('cursors', id);
  }

  nextTurn(): number {
    return ++this.#ownState().turn;
  }

  addressOf(cursor: Cursor): string {
    return this.frame(cursor.frame).prefix + cursor.step;
  }

  // Parallel groups

  group(id: number): ParallelGroup {
    return this.#state.groups.find((group) => group.id === id)!;
  }

  groups(): readonly ParallelGroup[] {
    return [...this.#state.groups];
  }

  hasGroup(id: number): boolean {
    return this.#state.groups.some((group) => group.id === id);
  }

  setGroup(group: ParallelGroup): void {
    this.#put('groups', group);
  }

  dropGroup(id: number): void {
    this.#drop('groups', id);
  }

  // Requests

  requests(): readonly RequestState[] {
    return [...this.#state.requests];
  }

  request(id: string): RequestState | undefined {
    return this.#state.requests.find((request) => request.id === id);
  }

  setRequest(id: string, change: Partial<RequestState>): void {
    this.#put('requests', { ...(this.request(id) ?? { id, step: '', autoAdvanced: [] }), ...change });
  }

  dropRequest(id: string): void {
    this.#drop('requests', id);
  }

  refuse(request: string, step: string, error: ErrorKind, message: string, retry: boolean): void {
    this.setRequest(request, { step, error: { kind: 'error', error, step, message, retry } });
  }

  // Output to others

  addRecord(record: StepRecord): void {
    this.set({ records: append(this.#state.records, record) });
  }

  emit(frame: number, observer: ObserverName, payload: Readonly<Record<string, unknown>>): void {
    this.ask({ type: 'emit', skill: this.frame(frame).skill, frame, observer, payload });
  }

  warn(message: string): void {
    this.ask({ type: 'warn', message });
  }

  /** Ends the session: no step is current any longer. */
  end(status: SessionStatus): void {
    const acting = this.cursors().filter(({ phase }) => phase.kind === 'acting');
    if (acting.length > 0) this.ask({ type: 'abort', cursors: acting.map(({ id }) => id), reason: status.kind });
    this.set({ status, cursors: [], groups: [] });
  }

  fail(cursor: Cursor, name: string, message: string, kind: ErrorKind = 'failed'): void {
    const step = this.addressOf(cursor);
    if (cursor.request !== null) this.refuse(cursor.request, step, kind, message, false);
    this.end({ kind: 'failed', step, error: { name, message } });
  }
}

type NewCursor = Pick<Cursor, 'frame' | 'step' | 'group' | 'request' | 'depth' | 'phase' | 'replay'>;
type Mutable<T> = { -readonly [K in keyof T]: T[K] };
type Lists = 'frames' | 'cursors' | 'groups' | 'requests';

const LISTS: readonly Lists[] = ['frames', 'cursors', 'groups', 'requests'];
const NOTHING_OWNED: Readonly<Record<Lists, boolean>> = {
  frames: false,
  cursors: false,
  groups: false,
  requests: false,
};

export function skillAt(facts: SkillFacts, path: readonly string[]): SkillFacts {
  let skill = facts;
  for (const name of path) {
    const sub = Object.hasOwn(skill.subskills, name) ? skill.subskills[name] : undefined;
    if (sub === undefined) throw new Error(`skill "${skill.name}" has no sub-skill "${name}"`);
    skill = sub;
  }
  return skill;
}
