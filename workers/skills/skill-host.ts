/** Decides which code runs for a session, and handles its answers. */
import type {
  ActionRequest,
  ObserveRequest,
  OpenedSession,
  OpenRequest,
  SkillCode,
  TurnOutcome,
  TurnRequest,
} from '../../activities/contract-session.ts';
import type {
  LocalSessions,
  ObservedEvents,
  Receiver,
  SessionVariables,
} from '../../activities/ports/session-stores.ts';
import type { SkillHost, VariablesOf } from '../../activities/ports/sessions.ts';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { SessionEventBody } from '../../domain/step-machine/event.ts';
import {
  isBaseVariable,
  describeMissing,
  missingOf,
  type Variables,
  valuesOf,
} from '../../domain/step-machine/skill-variables.ts';
import { findPackageRoot } from '../../setup/package-root.ts';
import { dirname, join } from 'node:path';
import type { Log } from '../log.ts';
import { SkillCatalog } from './catalog.ts';
import { keepIdentity, readIdentity, type Identity } from './identity-file.ts';
import type { OpenAnswer, TurnAnswer } from './protocol.ts';
import { markUse } from '../../store/server-mark.ts';
import { SkillPool } from './skill-pool.ts';
import { SkillProcess, SkillProcessGone, type SkillProcessOptions, SkillRequestFailed } from './skill-process.ts';

/** The limit for callbacks, which only decide; longer work belongs in an action. */
const TURN_LIMIT_MS = 10_000;
const OBSERVER_LIMIT_MS = 60_000;
/** An action ends itself at its timeout; after this time the worker ends its process. */
const TIMEOUT_GRACE_MS = 2_000;

export interface SkillHostOptions {
  readonly paths: readonly string[];
  readonly stateDir: string;
  /** What is kept of the sessions. Processes of skills use its folders. */
  readonly sessions: SkillHostSessions;
  /** Whose sessions these are. */
  readonly serverId: string;
  readonly env: Variables;
  /** Whether skills that declare variables may take them from `env`. */
  readonly ownVariables: boolean;
  readonly turnLimitMs?: number;
  readonly log: Log;
}

export interface SkillHostSessions {
  readonly observed: ObservedEvents;
  readonly variables: SessionVariables;
  readonly local: LocalSessions;
}

export interface RunningSkillHost extends SkillHost {
  /** Returns the code at a path. @throws CodedError `skill/unknown`, `skill/unusable` */
  identify(path: string): Promise<SkillCode>;
  close(): void;
}

type ActionEnd = Extract<SessionEventBody, { readonly type: 'action-ended' }>;

interface Runnable {
  readonly bundle: string;
  readonly codeHash: string;
}

export function createSkillHost(options: SkillHostOptions): RunningSkillHost {
  return new ProcessSkillHost(options);
}

class ProcessSkillHost implements RunningSkillHost {
  readonly #options: SkillHostOptions;
  readonly #catalog: SkillCatalog;
  readonly #pool: SkillPool;
  /** Identities by hash, because the same code always has the same identity. */
  readonly #identities = new Map<string, Identity>();
  /** Pairs of a session's code and other code that cannot continue it. */
  readonly #refused = new Map<string, string>();

  constructor(options: SkillHostOptions) {
    this.#options = options;
    this.#pool = new SkillPool({ spawn: (bundle, codeHash) => this.#processOf({ bundle, codeHash }) });
    this.#catalog = new SkillCatalog({ ...options, identify: (bundled) => this.#identify(bundled) });
  }

  close(): void {
    this.#pool.close();
  }

  async identify(path: string): Promise<SkillCode> {
    return codeOf(await this.#catalog.at(path));
  }

  async open({ session, request }: OpenRequest, of: VariablesOf): Promise<Omit<OpenedSession, 'searchAttributes'>> {
    const { skill, version, codeHash, path = [], params, calledWith, subskill, opener = null } = request;
    if (typeof skill !== 'string')
      throw new CodedError(
        'skill/params',
        'a session is started with an object that names its skill: { "skill": "NAME" }',
      );
    const code = calledWith?.code ?? codeOf(await this.#catalog.find(skill, version, codeHash));
    try {
      const runnable = await this.#codeFor(code);
      const asked = {
        op: 'open' as const,
        path,
        params,
        checked: calledWith !== undefined,
        ...(subskill === undefined ? {} : { subskill }),
      };
      const opened = (await this.#pool.run('turn', runnable, asked, this.#turnLimitMs())) as OpenAnswer;
      const { env: names } = await this.#identify(runnable);
      if (names.length === 0) return { code, ...opened };
      // A called sub-skill runs with the variables of its root session.
      if (of.root === session)
        await this.#options.sessions.variables.waitFor(
          session,
          { skill: code.skill, names, firstRun: of.firstRun, opener },
          this.#own(),
        );
      else await this.#variables({ session: of.root, firstRun: null }, code.skill, names);
      return { code, ...opened, variables: true };
    } catch (error) {
      throw toCodedError(error, `skill "${skill}"`);
    }
  }

  async turn(request: TurnRequest, of: VariablesOf): Promise<TurnOutcome> {
    const successor = await this.#successorOf(request.code);
    if (successor !== null) {
      const pair = `${request.code.codeHash}/${successor.codeHash}/${request.path.join('/')}/${request.state.version}`;
      if (!this.#refused.has(pair)) {
        const outcome = await this.#turnIn(successor, request, codeOf(successor), of);
        if (outcome.kind !== 'refused') return outcome;
        this.#refused.set(pair, outcome.message);
      }
      const kept = this.#catalog.kept(request.code.codeHash);
      // The earlier code continues the session that it began.
      if (kept === null) return { kind: 'refused', message: this.#refused.get(pair)! };
      return await this.#turnIn({ bundle: kept, codeHash: request.code.codeHash }, request, request.code, of);
    }
    try {
      return await this.#turnIn(await this.#codeFor(request.code), request, request.code, of);
    } catch (error) {
      if (error instanceof CodedError && error.code === 'skill/away')
        return { kind: 'refused', message: error.message };
      throw error;
    }
  }

  async act(request: ActionRequest, of: VariablesOf, signal: AbortSignal): Promise<SessionEventBody> {
    const { command, path, state, handshake, session } = request;
    const code = await this.#codeFor(request.code);
    const variables = await this.#variablesFor(code, request.code, receiver(session, of));
    const recordsDir = this.#options.sessions.local.folderOf(session);
    const limitMs = command.timeoutMs === null ? null : command.timeoutMs + TIMEOUT_GRACE_MS;
    try {
      const event = (await this.#pool.run(
        'action',
        code,
        { op: 'act', path, state, command, handshake, recordsDir, variables },
        limitMs,
        signal,
      )) as ActionEnd;
      // An action that stopped at its signal has not failed: the next attempt repeats it.
      if (!event.ok) signal.throwIfAborted();
      return event;
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      const { cursor, attempt } = command;
      const timedOut = error instanceof SkillProcessGone && error.isLate;
      const message = timedOut
        ? `ran past its timeoutMs of ${command.timeoutMs} and did not listen to its signal; its process was ended`
        : textOf(error);
      if (!(error instanceof SkillProcessGone) && !(error instanceof SkillRequestFailed)) throw error;
      if (error instanceof SkillRequestFailed && error.code === 'session/foreign')
        throw new CodedError(error.code, error.message, { cause: error });
      return {
        type: 'action-ended',
        cursor,
        attempt,
        ok: false,
        error: { name: 'SkillCrash', message },
        retryable: true,
        timedOut,
      };
    }
  }

  async observe({ session, code, path, events }: ObserveRequest, of: VariablesOf, signal: AbortSignal): Promise<void> {
    const runnable = await this.#codeFor(code);
    const variables = await this.#variablesFor(runnable, code, receiver(session, of));
    const recordsDir = this.#options.sessions.local.folderOf(session);
    const { observed } = this.#options.sessions;
    await observed.begin(session);
    for (const event of events) {
      if (!Number.isSafeInteger(event.number))
        throw new CodedError('session/foreign', `an event of session "${session}" has no number`);
      if (event.number <= (await observed.last(session))) continue;
      try {
        await this.#pool.run(
          'turn',
          runnable,
          { op: 'observe', path, event, recordsDir, variables },
          OBSERVER_LIMIT_MS,
          signal,
        );
      } catch (error) {
        if (!(error instanceof SkillProcessGone) || signal.aborted) throw error;
        // An observer that failed would fail again, so count its event as handled; the next event gets a new process.
        this.#options.log('warning', `observer ${event.observer} of session ${session}: ${error.message}`);
        await observed.note(session, event.number);
      }
    }
  }

  async #turnIn(
    runnable: Runnable,
    { session, path, state, event, handshake }: TurnRequest,
    code: SkillCode,
    of: VariablesOf,
  ): Promise<TurnOutcome> {
    const recordsDir = this.#options.sessions.local.folderOf(session);
    try {
      const variables = await this.#variablesFor(runnable, code, receiver(session, of));
      const request = { op: 'turn' as const, path, state, event, handshake, recordsDir, variables };
      const { outcome, migrated } = (await this.#pool.run(
        'turn',
        runnable,
        request,
        this.#turnLimitMs(),
      )) as TurnAnswer;
      if (outcome.kind === 'refused' || migrated === undefined) return outcome;
      // Only the workflow knows which search attributes the server has.
      const opened = {
        code,
        ...migrated.open,
        searchAttributes: [],
        ...(Object.keys(variables).length > 0 ? { variables: true as const } : {}),
      };
      return { ...outcome, migrated: { opened, state: migrated.state, event: migrated.event } };
    } catch (error) {
      if (error instanceof SkillProcessGone)
        return {
          kind: 'crashed',
          atMs: Date.now(),
          message: `A callback of skill "${code.skill}" did not end well: ${error.message}`,
        };
      if (error instanceof SkillRequestFailed) return { kind: 'crashed', atMs: Date.now(), message: error.message };
      // Other code may declare more than the session was handed.
      if (error instanceof CodedError && error.code === 'skill/variable-missing')
        return { kind: 'refused', message: error.message };
      throw error;
    }
  }

  async forget(session: string): Promise<void> {
    await this.#options.sessions.variables.drop(session);
  }

  /** Returns the variables that the code declares. @throws CodedError `skill/variable-missing` */
  async #variablesFor(
    runnable: Runnable,
    { skill }: SkillCode,
    of: Receiver,
  ): Promise<Readonly<Record<string, string>>> {
    const { env: names } = await this.#identify(runnable);
    return names.length === 0 ? {} : this.#variables(of, skill, names);
  }

  async #variables(of: Receiver, skill: string, names: readonly string[]): Promise<Readonly<Record<string, string>>> {
    const handedOver = await this.#options.sessions.variables.handedOver(of, skill);
    const values = valuesOf(names, { ...this.#own(), ...handedOver });
    const missing = missingOf(names, values);
    if (missing.length > 0)
      throw new CodedError(
        'skill/variable-missing',
        `${describeMissing(skill, missing)}: session "${of.session}" was passed none`,
      );
    return values;
  }

  /**
   * On your own Temporal server, the worker's operator sets the variables; the embedded worker passes none of its
   * shell's.
   */
  #own(): Variables {
    return this.#options.ownVariables ? this.#options.env : {};
  }

  /** Returns other code under the session's skill name; null if there is only its own. */
  async #successorOf({
    skill,
    codeHash,
  }: SkillCode): Promise<(Runnable & { readonly name: string; readonly version: string }) | null> {
    const current = await this.#catalog.current(skill);
    return current === null || current.codeHash === codeHash ? null : current;
  }

  /** @throws CodedError `skill/away` */
  async #codeFor({ skill, version, codeHash }: SkillCode): Promise<Runnable> {
    const kept = this.#catalog.kept(codeHash);
    if (kept !== null) return { bundle: kept, codeHash };
    const current = await this.#catalog.current(skill);
    if (current?.codeHash === codeHash) return current;
    const here =
      current === null
        ? 'no skill of that name is loaded here'
        : `loaded here is version ${current.version} (code ${current.codeHash.slice(0, 12)})`;
    throw new CodedError(
      'skill/away',
      `skill "${skill}" ${version} with code ${codeHash.slice(0, 12)} is not on this worker; ${here}`,
    );
  }

  async #identify(bundled: Runnable): Promise<Identity> {
    const known = this.#identities.get(bundled.codeHash) ?? readIdentity(bundled.bundle);
    if (known !== null) {
      this.#identities.set(bundled.codeHash, known);
      return known;
    }
    const process = new SkillProcess(this.#processOf(bundled));
    try {
      const { name, version, env } = await process.hello;
      return keepIdentity(bundled.bundle, { name, version, env });
    } catch (error) {
      throw toCodedError(error, bundled.bundle);
    } finally {
      process.end('it has said what it is', false);
    }
  }

  #processOf({ bundle, codeHash }: Runnable): SkillProcessOptions {
    const { env, log, serverId } = this.#options;
    markUse(dirname(bundle), serverId);
    return {
      // Also in tests, which run from sources: the child is started by Node alone.
      script: join(findPackageRoot(), 'dist/workers/skills/child.js'),
      bundle,
      codeHash,
      env: valuesOf(Object.keys(env).filter(isBaseVariable), env),
      onLine: (line) => log('info', `skill ${codeHash.slice(0, 12)}: ${line}`),
    };
  }

  #turnLimitMs(): number {
    return this.#options.turnLimitMs ?? TURN_LIMIT_MS;
  }
}

function codeOf({
  name,
  version,
  codeHash,
}: {
  readonly name: string;
  readonly version: string;
  readonly codeHash: string;
}): SkillCode {
  return { skill: name, version, codeHash };
}

/**
 * Returns who receives the variables. A called session knows the execution of its own workflow, but not that of its
 * root's.
 */
function receiver(session: string, { root, firstRun }: VariablesOf): Receiver {
  return { session: root, firstRun: root === session ? firstRun : null };
}

function toCodedError(error: unknown, what: string): unknown {
  if (error instanceof SkillRequestFailed)
    return new CodedError(error.code ?? 'skill/unusable', `${what}: ${error.message}`, { cause: error });
  if (error instanceof SkillProcessGone)
    return new CodedError('skill/crashed', `${what}: ${error.message}`, { cause: error });
  return error;
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
