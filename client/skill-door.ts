/**
 * Connects a skill's own transports, which hold no Temporal client, to durable sessions. They import this file of an
 * installed Voidbox by its path. One connection lasts as long as the process.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { realpathSync } from 'node:fs';
import type { Client } from '@temporalio/client';
import type { SessionRequest, SessionView } from '../activities/contract-session.ts';
import { isCodedError } from '../domain/errors/coded-error.ts';
import { remedyOf } from '../domain/errors/error-code.ts';
import { separateId } from '../domain/run/run-id.ts';
import { isSessionName, SESSION_NAME_RULE } from '../domain/step-machine/session-id.ts';
import type {
  DurableAnswer,
  DurableRefusal,
  DurableReply,
  DurableSessions,
  DurableSkill,
  DurableStart,
} from '../domain/step-machine/durable-port.ts';
import type { SessionResult } from '../domain/step-machine/result.ts';
import { readEnvironment, type Environment } from '../setup/environment.ts';
import { NoSessionWorkerError, NoSuchSessionError, SessionExistsError, SessionFailedError } from './sessions/errors.ts';
import { listSessions } from './sessions/list.ts';
import {
  advanceSession,
  cancelSession,
  recordsOfSession,
  requireWorker,
  settleSession,
  startSession,
  viewSession,
} from './sessions/sessions.ts';
import type { BundledSkill } from '../skill-kit/bundle/bundle-skill.ts';
import { requireStateFormat } from '../store/state-format.ts';
import { isUnavailable, serverMessageOf } from './temporal/unavailable.ts';
import { isKnownEntry, listEntries, rememberSkillPaths } from './embedded/skill-paths.ts';
import { createRunId } from './runs/new-id.ts';
import { NoServerError } from './temporal/no-server.ts';
import { handOverDuring } from './sessions/variables.ts';
import { openServerLink, type ServerLink } from './temporal/server-link.ts';
import { quote } from '../domain/units/quote.ts';

export { DURABLE_DOOR } from '../domain/step-machine/durable-port.ts';

export const TAKES_VARIABLES = true;

/** The id must be hard to guess, because any client that has it can use the session. */
const ID_BYTES = 6;
/** The number of tries of a call whose server is gone; between two tries the stack is started again. */
const TRIES = 3;

export function openDurableSessions(
  skill: DurableSkill,
  onProgress: (line: string) => void,
  variables?: Readonly<Record<string, string | undefined>>,
): DurableSessions {
  return new StackSessions(skill, readEnvironment(variables), onProgress);
}

type Refused = Extract<DurableReply, { readonly kind: 'refused' }>;

class StackSessions implements DurableSessions {
  readonly #skill: DurableSkill;
  readonly #env: Environment;
  readonly #onProgress: (line: string) => void;
  #link: Promise<ServerLink> | null = null;
  /** The hash of the code to start if the worker has several; null if it does not have to choose. */
  #codeHash: string | null = null;
  /** An entry of the worker that has the same code as this skill. */
  #twin: string | null = null;
  /** Sessions that are known to belong to this skill. */
  readonly #own = new Set<string>();

  constructor(skill: DurableSkill, env: Environment, onProgress: (line: string) => void) {
    this.#skill = skill;
    this.#env = env;
    this.#onProgress = onProgress;
  }

  async start({ session: named, params, subskill, handshake, atMost }: DurableStart): Promise<DurableReply> {
    const { name, version } = this.#skill;
    const session = named ?? createRunId(name, new Date(), randomBytes(ID_BYTES).toString('hex'));
    if (!isSessionName(session)) return refusal('params', `${quote(session)} is not a session id.`, SESSION_NAME_RULE);
    // Each try is the same start.
    const opener = randomUUID();
    const request = (): SessionRequest => ({
      opener,
      skill: name,
      version,
      ...(this.#codeHash === null ? {} : { codeHash: this.#codeHash }),
      ...(params === undefined ? {} : { params }),
      ...(subskill === undefined ? {} : { subskill }),
      ...(handshake === undefined ? {} : { handshake }),
    });
    let isAgain = false;
    return await this.#refusable(async () => {
      if (!this.#isLoaded()) this.#link = null;
      this.#codeHash = await this.#ownCode();
      const full = atMost === undefined ? null : await this.#full(atMost);
      if (full !== null) return full;
      const result = await this.#call(async (client) => {
        // No other client has a new id, so a session with it was started by the try before this one.
        const isSecond = isAgain && named === undefined;
        isAgain = true;
        return await handOverDuring(this.#env, { session, opener }, this.#onProgress, () =>
          isSecond ? startOrSettle(client, session, request()) : startSession(client, session, request()),
        );
      });
      this.#own.add(session);
      return { kind: 'answered', session, result };
    });
  }

  async advance(session: string, answer?: DurableAnswer): Promise<DurableReply> {
    return await this.#refusable(async () => {
      const foreign = await this.#foreign(session);
      if (foreign !== null) return foreign;
      const result = await this.#call((client) =>
        answer === undefined ? viewResult(client, session) : answerSession(client, session, answer),
      );
      return { kind: 'answered', session, result };
    });
  }

  async cancel(session: string): Promise<boolean | Refused> {
    return await this.#refusable(
      async () => (await this.#foreign(session)) ?? (await this.#call((client) => cancelSession(client, session))),
    );
  }

  async #full(atMost: number): Promise<Refused | null> {
    const { name } = this.#skill;
    const open = await this.#call((client) => listSessions(client, { limit: atMost, state: 'open', skill: name }));
    if (open.length < atMost) return null;
    const oldest = open.at(-1)!.session;
    return refusal(
      'full',
      `${open.length} sessions of step machine "${name}" are open, which is the limit.`,
      `Continue an open session, or end one: voidbox session list --state open, voidbox session cancel ${separateId(oldest)}. The server's --max-sessions sets the limit.`,
    );
  }

  /** Rejects a session of another skill; null if the session belongs to this skill. */
  async #foreign(session: string): Promise<Refused | null> {
    if (this.#own.has(session)) return null;
    const { name } = this.#skill;
    const createUnknownRefusal = (message: string): Refused =>
      refusal('unknown', message, `List sessions: voidbox session list. Begin one with start.`);
    if (!isSessionName(session)) return createUnknownRefusal(`${quote(session)} is not a session id.`);
    const { skill } = await this.#call((client) => viewSession(client, session));
    if (skill !== '' && skill !== name)
      return createUnknownRefusal(`Session "${session}" is one of step machine "${skill}", not of "${name}".`);
    this.#own.add(session);
    return null;
  }

  /** Repeats a call when the server has gone. Each call here has the same result if it is made twice. */
  async #call<T>(work: (client: Client) => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries += 1) {
      const link = await this.#connected();
      try {
        return await work(link.client());
      } catch (error) {
        if (tries >= TRIES || !isUnavailable(error)) throw error;
      }
    }
  }

  async #connected(): Promise<ServerLink> {
    const opening = (this.#link ??= this.#open());
    try {
      const link = await opening;
      await link.tend('start');
      return link;
    } catch (error) {
      // The next call opens the connection again.
      if (this.#link === opening) this.#link = null;
      throw error;
    }
  }

  async #open(): Promise<ServerLink> {
    if (!this.#env.temporalConfigured) await this.#beLoaded();
    const link = await openServerLink({ env: this.#env }, { start: true, onProgress: this.#onProgress });
    if (link === null) throw new Error('the embedded stack was not started');
    if (!link.isEmbedded) await requireWorker(link.client());
    return link;
  }

  /** Has the embedded worker load the skill. The same code is not loaded twice. */
  async #beLoaded(): Promise<void> {
    const { stateDir, skills } = this.#env;
    const { entry } = this.#skill;
    rememberSkillPaths(stateDir, skills, 'add');
    this.#twin = null;
    if (isKnownEntry(stateDir, entry)) return;
    const codeHash = this.#codeHash ?? (await this.#ownCode());
    for (const other of codeHash === null ? [] : this.#others()) {
      // The worker reports an entry that cannot be bundled, so skip it here.
      const found = await loadBundle(other, stateDir).catch(() => null);
      if (found?.codeHash !== codeHash) continue;
      this.#twin = other;
      return;
    }
    rememberSkillPaths(stateDir, [entry], 'add');
  }

  /** Null where no other entry is loaded that could have this skill's name. */
  async #ownCode(): Promise<string | null> {
    const { stateDir, temporalConfigured } = this.#env;
    if (temporalConfigured || this.#others().length === 0) return null;
    return (await loadBundle(this.#skill.entry, stateDir)).codeHash;
  }

  #others(): readonly string[] {
    const own = realpathSync(this.#skill.entry);
    return listEntries(this.#env.stateDir).filter((one) => one !== own);
  }

  /** Whether the embedded worker is set to load the skill. Another command may have changed the list since then. */
  #isLoaded(): boolean {
    const { stateDir, temporalConfigured } = this.#env;
    return temporalConfigured || isKnownEntry(stateDir, this.#twin ?? this.#skill.entry);
  }

  async #refusable<T>(work: () => Promise<T>): Promise<T | Refused> {
    try {
      requireStateFormat(this.#env.stateDir);
      return await work();
    } catch (error) {
      const refused = this.#refusalOf(error);
      if (refused === null) throw error;
      return refused;
    }
  }

  /** Converts an error to a refusal; null if only a change of Voidbox helps. */
  #refusalOf(error: unknown): Refused | null {
    const { entry } = this.#skill;
    const { temporalConfigured } = this.#env;
    if (error instanceof SessionExistsError)
      return refusal('exists', `${error.message}.`, 'Choose another id, or continue that session with `advance`.');
    if (error instanceof NoSuchSessionError) {
      return refusal('unknown', `${error.message}.`, 'List sessions: voidbox session list. Begin one with start.');
    }
    if (error instanceof NoSessionWorkerError)
      return refusal('unavailable', `${error.message}.`, `Start one: voidbox worker --skills ${entry}`);
    if (error instanceof SessionFailedError) {
      const known = remedyOf(error.code);
      if (error.code === 'skill/params') return refusal('params', error.message, known ?? '');
      const load = temporalConfigured
        ? `Start a worker that has it: voidbox worker --skills ${entry}`
        : `Load it: voidbox up --skills ${entry}`;
      return refusal('unavailable', error.message, error.code === 'skill/unknown' ? load : (known ?? load));
    }
    if (isCodedError(error) && error.code === 'host/state-format')
      return refusal('unavailable', `${error.message}.`, remedyOf(error.code) ?? '');
    if (error instanceof NoServerError) return refusal('unavailable', error.message, error.remedy);
    if (error instanceof Error && error.name === 'SetupError') {
      return refusal(
        'unavailable',
        error.message,
        (error as Error & { readonly remedy?: string | null }).remedy ?? 'See what is missing: voidbox doctor',
      );
    }
    if (isUnavailable(error))
      return refusal(
        'unavailable',
        `the connection to the Temporal server was lost: ${serverMessageOf(error)}`,
        'Try again. Check the server: voidbox ps',
      );
    return null;
  }
}

/** Bundles the skill as the worker does, so that both have the same hash. */
async function loadBundle(entry: string, stateDir: string): Promise<BundledSkill> {
  const { bundleSkill } = await import('../skill-kit/bundle/bundle-skill.ts');
  return await bundleSkill(entry, stateDir);
}

async function startOrSettle(client: Client, session: string, request: SessionRequest): Promise<SessionResult> {
  try {
    return await startSession(client, session, request);
  } catch (error) {
    if (!(error instanceof SessionExistsError)) throw error;
    return await settleSession(client, session);
  }
}

async function viewResult(client: Client, session: string): Promise<SessionResult> {
  const { current } = await viewSession(client, session);
  // A query costs nothing that stays; only who finds others at work waits for them.
  if (current !== null && (current.kind !== 'error' || current.error !== 'busy')) return current;
  return await settleSession(client, session);
}

async function answerSession(
  client: Client,
  session: string,
  { step, output, turn }: DurableAnswer,
): Promise<SessionResult> {
  return await advanceSession(client, session, { step, output, turn: turn ?? (await turnOf(client, session, step)) });
}

/**
 * Returns the turn of the step if it is open, else that of its last visit: then the answer is a repetition or is
 * rejected.
 */
async function turnOf(client: Client, session: string, step: string): Promise<number> {
  const { current, open, last, turn }: SessionView = await viewSession(client, session);
  const asked = current?.kind === 'prompt' ? [{ step: current.step, turn: current.turn }, ...(current.open ?? [])] : [];
  const due = [...asked, ...open].find((one) => one.step === step)?.turn;
  if (due !== undefined) return due;
  if (last?.step === step) return last.turn;
  const { records } = await recordsOfSession(client, session);
  return records.findLast((record) => record.step === step)?.turn ?? turn;
}

function refusal(kind: DurableRefusal, message: string, remedy: string): Refused {
  return { kind: 'refused', refusal: kind, message, remedy };
}
