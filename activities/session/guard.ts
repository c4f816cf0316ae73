/**
 * Decides which calls for the work of a session are allowed. Every client of the Temporal server can schedule any
 * activity with any arguments, so arguments prove nothing. Only workflow code of this worker may open and advance a
 * session, through local activities. Only a run of the session's workflow may call actions and observers. Both must
 * agree with the record that was written when the session was opened.
 */
import { activityInfo } from '@temporalio/activity';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { Handshake } from '../../domain/step-machine/definition.ts';
import { isCallOf, isSessionId, SESSION_ID_RULE } from '../../domain/step-machine/session-id.ts';
import type { WorkflowIdentity, OpenedSession, OpenRequest, SkillCode, SkillPlace } from '../contract-session.ts';
import type { OpenSession, OpenSessionStore, WorkflowRunLookup } from '../ports/sessions.ts';
import { quote } from '../../domain/units/quote.ts';

/** The runs that are remembered: a history continues in a new run, and older runs have no work in progress. */
const MOST_RUNS = 8;
const MOST_CODES = 32;

export interface SessionGuardDeps {
  /** The workflow type and the task queue of sessions. */
  readonly workflow: { readonly type: string; readonly taskQueue: string };
  readonly opened: OpenSessionStore;
  readonly runOf: WorkflowRunLookup;
}

/** The workflow that called the activity. */
interface Asker {
  readonly session: string;
  readonly run: string;
}

export class SessionGuard {
  readonly #workflow: SessionGuardDeps['workflow'];
  readonly #opened: OpenSessionStore;
  readonly #runOf: WorkflowRunLookup;

  constructor({ workflow, opened, runOf }: SessionGuardDeps) {
    this.#workflow = workflow;
    this.#opened = opened;
    this.#runOf = runOf;
  }

  /**
   * Checks a call that opens a session.
   * @returns the outermost session in the chain of callers.
   * @throws CodedError `session/foreign`, `skill/params`
   */
  async mayOpen({
    session,
    request,
    parent,
    firstRun,
  }: OpenRequest): Promise<{ readonly root: string; readonly firstRun: string }> {
    const asker = this.#askedByWorkflowCode();
    if (!isSessionId(asker.session)) throw new CodedError('skill/params', describeInvalidId(asker.session));
    requireSameSession(session, asker);
    const own = { root: session, firstRun };
    if (request.calledWith === undefined) return own;
    // Params and code of a called session are used unchecked, so only its caller may provide them.
    const caller = parent === undefined ? null : await this.#recordOf(parent.session);
    if (
      caller === null ||
      parent === undefined ||
      !caller.runs.includes(parent.run) ||
      !isCallOf(caller.session, session)
    )
      throw foreign(`session "${session}" says that another one has called it, and none did`);
    agree(caller, {
      session: caller.session,
      code: request.calledWith.code,
      path: caller.path,
      handshake: request.handshake ?? {},
    });
    const { path = [] } = request;
    if (path.length <= caller.path.length || caller.path.some((name, depth) => path[depth] !== name))
      throw foreign(`session "${session}" names a sub-skill that its caller "${caller.session}" does not have`);
    return { ...own, root: caller.root };
  }

  /** Records an opened session. The same workflow may open it twice if its worker dies in between. */
  async isOpen(
    { session, request }: OpenRequest,
    { code }: Pick<OpenedSession, 'code'>,
    { root, firstRun }: Awaited<ReturnType<SessionGuard['mayOpen']>>,
  ): Promise<void> {
    const { path = [], handshake = {} } = request;
    await this.#opened.write({
      session,
      firstRun,
      runs: [this.#askedByWorkflowCode().run],
      codes: [code],
      path,
      handshake,
      root,
    });
  }

  /** Checks a call that advances a session. @throws CodedError `session/foreign` */
  async mayTurn(place: SkillPlace & WorkflowIdentity): Promise<OpenSession> {
    const asker = this.#askedByWorkflowCode();
    requireSameSession(place.session, asker);
    const record = await this.#recordOf(asker.session);
    if (record === null) throw createNotOpenedError(asker.session);
    if (place.firstRun !== record.firstRun)
      throw foreign(`session "${record.session}" was opened by another workflow of that id`);
    agree(record, place);
    if (record.runs.includes(asker.run)) return record;
    const known = { ...record, runs: [...record.runs, asker.run].slice(-MOST_RUNS) };
    await this.#opened.write(known);
    return known;
  }

  /** Records that the session has migrated to other code. */
  async hasMigrated(record: OpenSession, code: SkillCode): Promise<void> {
    if (record.codes.some(({ codeHash }) => codeHash === code.codeHash)) return;
    await this.#opened.write({ ...record, codes: [...record.codes, code].slice(-MOST_CODES) });
  }

  /** Checks the call at the end of a session that no other session has called. @throws CodedError `session/foreign` */
  async mayClose(request: WorkflowIdentity & { readonly session: string }): Promise<void> {
    await this.mayFlush(request);
  }

  /** Checks a call that writes records. @throws CodedError `session/foreign` */
  async mayFlush({ session, firstRun }: WorkflowIdentity & { readonly session: string }): Promise<void> {
    const asker = this.#askedByWorkflowCode();
    requireSameSession(session, asker);
    const record = await this.#recordOf(asker.session);
    if (record === null || firstRun !== record.firstRun) throw createNotOpenedError(session);
  }

  /**
   * Checks calls of actions and observers, which any client of the server can schedule.
   * @throws CodedError `session/foreign`
   */
  async mayAct(place: SkillPlace): Promise<OpenSession> {
    const asker = this.#askedByWorkflow();
    requireSameSession(place.session, asker);
    const record = await this.#recordOf(asker.session);
    if (record === null) throw createNotOpenedError(asker.session);
    if (!record.runs.includes(asker.run)) {
      // A continued run of the workflow may call observers before its first turn.
      const run = await this.#runOf(asker.session, asker.run);
      if (run?.taskQueue !== this.#workflow.taskQueue || run.firstRun !== record.firstRun)
        throw foreign(`the run ${asker.run} of workflow "${asker.session}" is not a run of the session`);
    }
    agree(record, place);
    return record;
  }

  /** Only workflow code of this process can call local activities; no server and no client can. */
  #askedByWorkflowCode(): Asker {
    if (!activityInfo().isLocal)
      throw foreign('activities of a session run only as local activities of its own workflow');
    return this.#askedByWorkflow();
  }

  #askedByWorkflow(): Asker {
    const { workflowExecution, workflowType } = activityInfo();
    if (workflowExecution === undefined)
      throw foreign('a client of the server scheduled an activity of sessions directly');
    if (workflowType !== this.#workflow.type)
      throw foreign(`an activity of sessions was scheduled by a workflow of type ${quote(workflowType)}`);
    return { session: workflowExecution.workflowId, run: workflowExecution.runId };
  }

  async #recordOf(session: string): Promise<OpenSession | null> {
    return await this.#opened.read(checkId(session));
  }
}

function requireSameSession(session: unknown, asker: Asker): void {
  if (session !== asker.session)
    throw foreign(`workflow "${asker.session}" asked for the work of session ${quote(session)}`);
}

/** @throws CodedError `session/foreign` if the arguments differ from the record of the opened session */
function agree(record: OpenSession, { code, path, handshake }: SkillPlace): void {
  const isKnown = record.codes.some(
    ({ codeHash, skill, version }) => code?.codeHash === codeHash && code.skill === skill && code.version === version,
  );
  if (!isKnown)
    throw foreign(
      `session "${record.session}" was opened with code ${record.codes.at(-1)?.codeHash.slice(0, 12)}, not ${quote(code?.codeHash)}`,
    );
  if (!isSameList(record.path, path))
    throw foreign(`session "${record.session}" runs the sub-skill ${quote(record.path.join('/'))}, not ${quote(path)}`);
  if (!isSameHandshake(record.handshake, handshake))
    throw foreign(`session "${record.session}" was opened with another handshake`);
}

function isSameHandshake(one: Partial<Handshake>, other: Partial<Handshake> | undefined): boolean {
  if (typeof other !== 'object' || other === null) return false;
  return (
    one.host === other.host &&
    one.isSubagent === other.isSubagent &&
    isSameList(one.toolsAvailable ?? [], other.toolsAvailable ?? [])
  );
}

function isSameList(one: readonly string[], other: unknown): boolean {
  return Array.isArray(other) && one.length === other.length && one.every((item, index) => item === other[index]);
}

function checkId(session: string): string {
  if (isSessionId(session)) return session;
  throw foreign(describeInvalidId(session));
}

function describeInvalidId(session: string): string {
  return `the workflow id ${quote(session)} is not a session id: ${SESSION_ID_RULE}`;
}

function createNotOpenedError(session: string): CodedError {
  return foreign(`session "${session}" was not opened on this host`);
}

function foreign(message: string): CodedError {
  return new CodedError('session/foreign', message);
}
