/** A mock VM: its files, its commands by key, and its current holder. */
import { randomUUID } from 'node:crypto';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { ExecRequest, ExecState } from '../../activities/ports/sandbox.ts';
import { MockExec } from './exec.ts';
import { MockFiles } from './files.ts';
import { MockHold } from './hold.ts';
import type { MockProgram } from './programs.ts';

/** The properties of the VM's disk. */
export interface MockDisk {
  readonly diskMib: number;
  readonly root: string | null;
  /** Guest paths whose content is the host's. */
  readonly mountPaths: readonly string[];
}

export class MockVm {
  readonly name: string;
  readonly disk: MockDisk;
  readonly files = new MockFiles();
  readonly bootMs: number;
  /** An id that differs in each VM. */
  readonly life = randomUUID();
  readonly #programs: Readonly<Record<string, MockProgram>>;
  readonly #execs = new Map<string, MockExec>();
  #hold: MockHold | null = null;
  #fence = 0;
  /** The reason for which the VM has ended. */
  #end: string | null = null;
  readonly #onEnd: (message: string) => void;

  /** @param onEnd  called once, with the reason's message, when the VM has ended */
  constructor(
    name: string,
    disk: MockDisk,
    programs: Readonly<Record<string, MockProgram>>,
    bootMs: number,
    onEnd: (message: string) => void,
  ) {
    this.name = name;
    this.disk = disk;
    this.bootMs = bootMs;
    this.#programs = programs;
    this.#onEnd = onEnd;
  }

  get hadCommands(): boolean {
    return this.#execs.size > 0;
  }

  get execs(): readonly ExecState[] {
    const left = [...this.#execs].filter(([, exec]) => !exec.isAcknowledged);
    return left.map(([key, exec]) => ({ key, isRunning: exec.isRunning }));
  }

  get isAlive(): boolean {
    return this.#end === null;
  }

  /** @throws CodedError `vm/lost`, and `fence/stale` for a holder that another has replaced */
  check(hold?: MockHold): void {
    if (this.#end !== null) throw new CodedError('vm/lost', this.#end);
    if (hold === undefined) return;
    if (hold === this.#hold) return hold.check();
    throw new CodedError(
      'fence/stale',
      `mock VM ${this.name}: fence ${hold.fence} is stale, ${this.#fence} was granted`,
    );
  }

  /** Raises the fence, and cuts the hold of the earlier holder. */
  attach(): MockHold {
    this.#fence += 1;
    const fence = this.#fence;
    this.#hold?.cut(
      () => new CodedError('fence/stale', `mock VM ${this.name}: another holder took over with fence ${fence}`),
    );
    this.#hold = new MockHold(fence);
    return this.#hold;
  }

  startExec(request: ExecRequest): { readonly exec: MockExec; readonly known: boolean } {
    const found = this.#execs.get(request.key);
    if (found !== undefined) return { exec: found, known: true };
    const program = Object.hasOwn(this.#programs, request.program)
      ? (this.#programs[request.program] as MockProgram)
      : null;
    const exec = new MockExec(request, program, Object.keys(this.#programs), this.files);
    this.#execs.set(request.key, exec);
    return { exec, known: false };
  }

  /** @throws CodedError `vm/guest-error` for an unknown key */
  findExec(key: string): MockExec {
    const found = this.#execs.get(key);
    if (found === undefined) throw new CodedError('vm/guest-error', `mock VM ${this.name} has no command ${key}`);
    return found;
  }

  /** Ends the VM. Later operations fail with `vm/lost` and this message. */
  end(message: string): void {
    if (this.#end !== null) return;
    this.#end = message;
    this.#hold?.cut(() => new CodedError('vm/lost', message));
    for (const exec of this.#execs.values()) exec.kill('SIGKILL');
    this.#onEnd(message);
  }
}
