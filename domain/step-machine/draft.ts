import type { Command } from './command.ts';
import type { ObserverName } from './definition.ts';
import type { SkillFacts, StepFacts } from './facts.ts';
import { append, type StepRecord } from './records.ts';
import type { ErrorKind } from './result.ts';
import type { Cursor, FrameState, ParallelGroup, Phase, RequestState, SessionState, SessionStatus } from './state.ts';

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
  #state: SessionState;

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
    this.#state = { ...this.#state, ...change };
  }

  ask(command: Command): void {
    this.commands.push(command);
  }

  // Frames

  frame(id: number): FrameState {
    return this.#state.frames[id]!;
  }

  setFrame(id: number, change: Partial<FrameState>): void {
    this.set({ frames: { ...this.#state.frames, [id]: { ...this.frame(id), ...change } } });
  }

  addFrame(frame: Omit<FrameState, 'id'>): number {
    const id = this.#state.nextFrame;
    this.set({ nextFrame: id + 1, frames: { ...this.#state.frames, [id]: { ...frame, id } } });
    return id;
  }

  /** The session's own frame stays: its params and stores are the session's. */
  dropFrame(id: number): void {
    if (id === 0) return;
    const { [id]: _dropped, ...frames } = this.#state.frames;
    this.set({ frames });
  }

  skillOf(frame: number): SkillFacts {
    return skillAt(this.facts, this.frame(frame).skill);
  }

  stepOf(cursor: Cursor): StepFacts {
    return this.skillOf(cursor.frame).steps[cursor.step]!;
  }

  // Cursors

  cursor(id: number): Cursor | undefined {
    return this.#state.cursors[id];
  }

  cursors(): readonly Cursor[] {
    return Object.values(this.#state.cursors);
  }

  setCursor(id: number, change: Partial<Cursor>): Cursor {
    const cursor = { ...this.cursor(id)!, ...change };
    this.set({ cursors: { ...this.#state.cursors, [id]: cursor } });
    return cursor;
  }

  setPhase(id: number, phase: Phase): Cursor {
    return this.setCursor(id, { phase });
  }

  addCursor(cursor: Omit<Cursor, 'id' | 'turn' | 'enteredAtMs' | 'invalid' | 'prompt' | 'human' | 'deadlineMs' | 'submitted'>): Cursor {
    const turn = this.nextTurn();
    const added: Cursor = { ...cursor, id: turn, turn, enteredAtMs: this.atMs, invalid: 0, prompt: null, human: null, deadlineMs: null, submitted: false };
    this.set({ cursors: { ...this.#state.cursors, [turn]: added } });
    return added;
  }

  dropCursor(id: number): void {
    const { [id]: _dropped, ...cursors } = this.#state.cursors;
    this.set({ cursors });
  }

  nextTurn(): number {
    this.set({ turn: this.#state.turn + 1 });
    return this.#state.turn;
  }

  addressOf(cursor: Cursor): string {
    return this.frame(cursor.frame).prefix + cursor.step;
  }

  // Parallel groups

  group(id: number): ParallelGroup {
    return this.#state.groups[id]!;
  }

  setGroup(group: ParallelGroup): void {
    this.set({ groups: { ...this.#state.groups, [group.id]: group } });
  }

  dropGroup(id: number): void {
    const { [id]: _dropped, ...groups } = this.#state.groups;
    this.set({ groups });
  }

  // Requests

  request(id: string): RequestState | undefined {
    return this.#state.requests[id];
  }

  setRequest(id: string, change: Partial<RequestState>): void {
    const before: RequestState = this.request(id) ?? { step: '', autoAdvanced: [] };
    this.set({ requests: { ...this.#state.requests, [id]: { ...before, ...change } } });
  }

  dropRequest(id: string): void {
    const { [id]: _dropped, ...requests } = this.#state.requests;
    this.set({ requests });
  }

  refuse(request: string, step: string, error: ErrorKind, message: string, retry: boolean): void {
    this.setRequest(request, { step, error: { kind: 'error', error, step, message, retry } });
  }

  // What is told to others

  addRecord(record: StepRecord): void {
    this.set({ records: append(this.#state.records, record) });
  }

  emit(frame: number, observer: ObserverName, payload: Readonly<Record<string, unknown>>): void {
    this.ask({ type: 'emit', skill: this.frame(frame).skill, observer, payload });
  }

  warn(message: string): void {
    this.ask({ type: 'warn', message });
  }

  /** Ends the session: nothing of it is current any more. */
  end(status: SessionStatus): void {
    const acting = this.cursors().filter(({ phase }) => phase.kind === 'acting');
    if (acting.length > 0) this.ask({ type: 'abort', cursors: acting.map(({ id }) => id), reason: status.kind });
    this.set({ status, cursors: {}, groups: {} });
  }

  fail(cursor: Cursor, name: string, message: string, kind: ErrorKind = 'failed'): void {
    const step = this.addressOf(cursor);
    if (cursor.request !== null) this.refuse(cursor.request, step, kind, message, false);
    this.end({ kind: 'failed', step, error: { name, message } });
  }
}

export function skillAt(facts: SkillFacts, path: readonly string[]): SkillFacts {
  let skill = facts;
  for (const name of path) {
    const sub = Object.hasOwn(skill.subskills, name) ? skill.subskills[name] : undefined;
    if (sub === undefined) throw new Error(`skill "${skill.name}" has no sub-skill "${name}"`);
    skill = sub;
  }
  return skill;
}
