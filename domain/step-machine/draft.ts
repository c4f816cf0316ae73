import type { Command } from './command.ts';
import type { ObserverName } from './definition.ts';
import type { SkillFacts, StepFacts } from './facts.ts';
import { append, type StepRecord } from './records.ts';
import type { ErrorKind } from './result.ts';
import { frameOf, type Cursor, type FrameState, type ParallelGroup, type Phase, type RequestState, type SessionState, type SessionStatus } from './state.ts';

/** What a visit gave. */
export interface Outcome {
  readonly response: unknown;
  readonly actionResult?: unknown;
  readonly result: unknown;
}

/** One transition in the making: copies what it changes and collects what it asks for. */
export class Draft {
  readonly facts: SkillFacts;
  readonly commands: Command[] = [];
  readonly atMs: number;
  /** Visits that are recorded and not left yet. */
  readonly recorded: { readonly cursor: number; readonly outcome: Outcome }[] = [];
  /** This transition's own; a list in it is, once it is named in `#owned`. */
  readonly #state: Mutable<SessionState>;
  readonly #owned: Record<Lists, boolean> = { frames: false, cursors: false, groups: false, requests: false };

  constructor(facts: SkillFacts, before: SessionState, atMs: number) {
    this.facts = facts;
    this.atMs = atMs;
    this.#state = { ...before, nowMs: atMs };
  }

  get state(): SessionState {
    return this.#state;
  }

  get isOver(): boolean {
    const { kind } = this.#state.status;
    return kind !== 'open' && kind !== 'new';
  }

  set(change: Partial<SessionState>): void {
    Object.assign(this.#state, change);
  }

  ask(command: Command): void {
    this.commands.push(command);
  }

  /** The list as one that may be written to: a copy, the first time. */
  #own<K extends Lists>(key: K): SessionState[K][number][] {
    const list: readonly SessionState[K][number][] = this.#state[key];
    if (this.#owned[key]) return list as SessionState[K][number][];
    const own = [...list];
    this.#owned[key] = true;
    (this.#state as Record<Lists, readonly unknown[]>)[key] = own;
    return own;
  }

  #put<K extends Lists>(key: K, item: SessionState[K][number]): void {
    const list = this.#own(key);
    const at = list.findIndex(({ id }) => id === item.id);
    if (at < 0) list.push(item);
    else list[at] = item;
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

  /** Lists are given as they are at present: what is done to one while going through it changes nothing there. */
  frames(): readonly FrameState[] {
    return [...this.#state.frames];
  }

  setFrame(id: number, change: Partial<FrameState>): void {
    this.#put('frames', { ...this.frame(id), ...change });
  }

  addFrame(frame: Omit<FrameState, 'id'>): number {
    const id = this.#state.nextFrame++;
    this.#put('frames', { ...frame, id });
    return id;
  }

  /** The session's own frame stays: its params and stores are the session's. */
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
    const cursor = { ...this.cursor(id)!, ...change };
    this.#put('cursors', cursor);
    return cursor;
  }

  setPhase(id: number, phase: Phase): Cursor {
    return this.setCursor(id, { phase });
  }

  addCursor(cursor: Omit<Cursor, 'id' | 'turn' | 'enteredAtMs' | 'invalid' | 'prompt' | 'human' | 'deadlineMs' | 'submitted'>): Cursor {
    const turn = this.nextTurn();
    const added: Cursor = { ...cursor, id: turn, turn, enteredAtMs: this.atMs, invalid: 0, prompt: null, human: null, deadlineMs: null, submitted: false };
    this.#put('cursors', added);
    return added;
  }

  dropCursor(id: number): void {
    this.#drop('cursors', id);
  }

  nextTurn(): number {
    return ++this.#state.turn;
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

  // What is told to others

  addRecord(record: StepRecord): void {
    this.set({ records: append(this.#state.records, record) });
  }

  emit(frame: number, observer: ObserverName, payload: Readonly<Record<string, unknown>>): void {
    this.ask({ type: 'emit', skill: this.frame(frame).skill, frame, observer, payload });
  }

  warn(message: string): void {
    this.ask({ type: 'warn', message });
  }

  /** Ends the session: nothing of it is current any more. */
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

type Mutable<T> = { -readonly [K in keyof T]: T[K] };
type Lists = 'frames' | 'cursors' | 'groups' | 'requests';

export function skillAt(facts: SkillFacts, path: readonly string[]): SkillFacts {
  let skill = facts;
  for (const name of path) {
    const sub = Object.hasOwn(skill.subskills, name) ? skill.subskills[name] : undefined;
    if (sub === undefined) throw new Error(`skill "${skill.name}" has no sub-skill "${name}"`);
    skill = sub;
  }
  return skill;
}
