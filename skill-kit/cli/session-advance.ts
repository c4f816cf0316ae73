/** `advance --session`: one answer of a session in files, given once however often and by however many it is asked for. */
import { factsOf, type SkillFacts } from '../../domain/step-machine/facts.ts';
import type { SessionResult } from '../../domain/step-machine/result.ts';
import { canResume, migrate, type Resumption } from '../../domain/step-machine/resume.ts';
import type { SessionState } from '../../domain/step-machine/state.ts';
import type { SessionEventBody } from '../../domain/step-machine/event.ts';
import { Session } from '../drive/drive.ts';
import { createRuntime } from '../drive/runtime.ts';
import { type Claim, claimNext } from './claims.ts';
import { basePath, checkSessionId, sessionFolder } from './session-folder.ts';
import { outputLine, resultLine, SessionLog, type LogLine, type LogPlace } from './session-log.ts';
import { readRecords, readStored, type StoredSession, withRecords, writeStored } from './session-state.ts';
import {
  type Ask,
  type Move,
  nextMove,
  stuckStep,
  turnOf,
  viewOf,
  findWaitedStep,
  type OutputLine,
  type SessionView,
} from './session-view.ts';
import { codeHashOf, failureOf, createWarn, type Outcome, type SkillCall } from './skill-call.ts';

/** @throws {Error} */
export async function advanceStored(call: SkillCall, id: string): Promise<Outcome> {
  checkSessionId(id);
  const named = call.flags.text['session-dir'];
  const folder = sessionFolder(named, false);
  const path =
    folder === null ? `${named ?? 'the folder of sessions'}, which does not exist` : `${basePath(folder, id)}.jsonl`;
  const createNotFoundError = (): Error =>
    new Error(`session "${id}" not found at ${path}. Start a new session with --session new.`);
  if (folder === null) throw createNotFoundError();
  const log = openLog(path, createNotFoundError);
  try {
    return await new StoredAdvance(call, basePath(folder, id), log, createNotFoundError).run();
  } finally {
    log.close();
  }
}

function openLog(path: string, notFound: () => Error): SessionLog {
  try {
    return new SessionLog(path);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') throw notFound();
    throw cause;
  }
}

interface LoggedAnswer {
  readonly line: LogLine | null;
  readonly result: SessionResult;
}

class StoredAdvance {
  readonly #call: SkillCall;
  readonly #base: string;
  readonly #log: SessionLog;
  readonly #notFound: () => Error;
  readonly #codeHash: string | null;

  constructor(call: SkillCall, base: string, log: SessionLog, notFound: () => Error) {
    this.#call = call;
    this.#base = base;
    this.#log = log;
    this.#notFound = notFound;
    this.#codeHash = codeHashOf(call.io);
  }

  async run(): Promise<Outcome> {
    const ask = await this.#ask(this.#look());
    for (;;) {
      const outcome = readSettledOutcome(nextMove(this.#look(ask), ask, Date.now())) ?? (await this.#moveOn(ask));
      if (outcome !== null) return outcome;
    }
  }

  #look(ask?: Ask): SessionView {
    const stored = this.#stored();
    this.#resumption(stored);
    return viewOf(stored, this.#log, ask?.place);
  }

  /** @throws {Error} when the session is not this skill's, or not this version's */
  #resumption({ state }: StoredSession): {
    readonly facts: SkillFacts;
    readonly resumption: Exclude<Resumption, { readonly kind: 'refused' }>;
  } {
    const { definition } = this.#call;
    const facts = factsOf(definition, this.#codeHash);
    const resumption = canResume(facts, definition.migrations ?? [], state);
    if (resumption.kind === 'refused') throw new Error(resumption.message);
    return { facts, resumption };
  }

  #stored(): StoredSession {
    const stored = readStored(this.#base);
    if (stored === null) throw this.#notFound();
    return stored;
  }

  async #ask({ stored }: SessionView): Promise<Ask> {
    const { flags, inputs } = this.#call;
    const { step } = flags.text;
    const hasOutput = inputs.has('output');
    const ask: Ask = {
      seen: stored.number,
      place: stored.place,
      answered: stored.answered ?? 0,
      given: undefined,
      turn: undefined,
    };
    if (step === undefined && !hasOutput) return ask;
    if (stored.outputMode === 'flag' && (step === undefined || !hasOutput))
      throw new Error('--step and --output are required for advance in flag mode');
    if (step === undefined) throw new Error('--step is required for advance');
    // Without `--output`, which only file mode allows, the session file contains the output, whatever step `--step`
    // names.
    if (!hasOutput) return ask;
    return { ...ask, given: { step, output: await inputs.json('output') }, turn: turnOf(stored.state, step) };
  }

  /** Makes one move while no other process moves. Null if the move was for another request and more work remains. */
  async #moveOn(ask: Ask): Promise<Outcome | null> {
    const claim = await claimNext(this.#base, () => this.#stored());
    let isWritten = false;
    try {
      const view = this.#look(ask);
      const move = nextMove(view, ask, Date.now());
      const written = await this.#execute(view, move, claim);
      isWritten = true;
      const line = this.#publish(written);
      claim.release();
      const isOwn = move.kind === 'process' || move.kind === 'append' || move.kind === 'tick';
      return isOwn ? outcomeOf(line, written.reply.failure) : readSettledOutcome(move);
    } finally {
      if (!isWritten) claim.abandon();
    }
  }

  async #execute(view: SessionView, move: Move, claim: Claim): Promise<StoredSession> {
    const { stored } = view;
    switch (move.kind) {
      case 'resume':
        return this.#resume(view, stored.underWay!, claim);
      case 'process':
        return this.#process(
          view,
          move.line,
          move.isRetry ? (stuckStep(stored.state) ?? move.line.step) : move.line.step,
          move.turn,
          claim,
        );
      case 'append': {
        this.#log.append(outputLine(move.output));
        const appended = viewOf(stored, this.#log);
        return this.#process(appended, appended.unanswered!, move.output.step, move.turn, claim);
      }
      case 'tick':
        return this.#tick(view, claim);
      case 'publish':
      case 'answer':
      case 'refuse':
        // Another process has done it already. The claim is still used up, because no process can judge a link that
        // remains.
        return writeStored(this.#base, { ...stored, number: claim.number, claim: claim.index }, stored.recordsBytes);
    }
  }

  async #process(
    view: SessionView,
    line: OutputLine,
    step: string,
    turn: number | undefined,
    claim: Claim,
  ): Promise<StoredSession> {
    const work = this.#open(view.stored, line.number);
    const result = await work.session.request((request) => ({
      type: 'advance',
      request,
      step,
      value: line.output,
      ...(turn === undefined ? {} : { turn }),
    }));
    await work.session.idle();
    return this.#write(work.session.state, { line, result }, view, claim);
  }

  /** First completes work that was started, under the same key, because no process knows how far it got. */
  async #resume(
    view: SessionView,
    { line, request }: NonNullable<StoredSession['underWay']>,
    claim: Claim,
  ): Promise<StoredSession> {
    const work = this.#open(view.stored, line);
    work.session.resume();
    await work.session.idle();
    const result = (request === null ? undefined : work.replies.get(request)) ?? work.session.result;
    return this.#write(work.session.state, { line: view.working ?? null, result }, view, claim);
  }

  async #tick(view: SessionView, claim: Claim): Promise<StoredSession> {
    const work = this.#open(view.stored, null);
    const step = findWaitedStep(view.stored.state, Date.now());
    let { result } = work.session;
    if (step === undefined) work.session.feed({ type: 'tick' });
    else
      result = await work.session.request((request): SessionEventBody => ({
        type: 'advance',
        request,
        step,
        value: {},
      }));
    await work.session.idle();
    return this.#write(
      work.session.state,
      { line: null, result: step === undefined ? work.session.result : result },
      view,
      claim,
    );
  }

  /** The session, running. Before an action starts, that it does is written down. */
  #open(
    stored: StoredSession,
    line: number | null,
  ): { readonly session: Session; readonly replies: ReadonlyMap<string, SessionResult> } {
    const { definition, refs, io } = this.#call;
    const { state, older } = this.#prepare(stored);
    const replies = new Map<string, SessionResult>();
    const runtime = createRuntime(definition, {
      handshake: stored.handshake,
      refs,
      ...(this.#codeHash === null ? {} : { codeHash: this.#codeHash }),
      olderRecords: older,
      warn: createWarn(io),
      onCommand: (command) => {
        if (command.type === 'reply') replies.set(command.request, command.result);
        if (command.type === 'run-action') this.#writeDown(stored, session.state, line);
      },
    });
    const session: Session = new Session(runtime, state, false);
    return { session, replies };
  }

  #writeDown(stored: StoredSession, state: SessionState, line: number | null): void {
    const request = state.requests[0]?.id ?? null;
    writeStored(this.#base, { ...stored, state, underWay: { line, request } }, stored.recordsBytes);
  }

  #prepare(stored: StoredSession): {
    readonly state: SessionState;
    readonly older: () => ReturnType<typeof readRecords>;
  } {
    const { facts, resumption } = this.#resumption(stored);
    if (resumption.kind === 'same') return { state: stored.state, older: () => readRecords(this.#base, stored) };
    return { state: migrate(facts, withRecords(this.#base, stored), resumption.migration), older: () => [] };
  }

  #write(
    state: SessionState,
    { line, result }: LoggedAnswer,
    { stored, replyLine }: SessionView,
    claim: Claim,
  ): StoredSession {
    const place: LogPlace = line ?? replyLine ?? stored.place;
    return writeStored(
      this.#base,
      {
        number: claim.number,
        claim: claim.index,
        state,
        handshake: stored.handshake,
        outputMode: stored.outputMode,
        place: { offset: place.offset, lines: place.lines },
        answered: line?.number ?? stored.answered,
        reply: { line: resultLine(result), failure: failureOf(result) },
        mayRetry: result.kind === 'error' && result.error === 'action',
        underWay: null,
      },
      stored.recordsBytes,
    );
  }

  /** The number of the result's line in the session file, which is put there if it is missing. */
  #publish(stored: StoredSession): number {
    const before = viewOf(stored, this.#log).replyLine;
    if (before !== undefined) return before.number;
    this.#log.fillUp(Math.max(stored.place.lines, stored.answered ?? 0), stored.place);
    this.#log.append(stored.reply.line);
    return viewOf(stored, this.#log).replyLine!.number;
  }
}

function readSettledOutcome(move: Move): Outcome | null {
  if (move.kind === 'refuse') throw new Error(move.message);
  return move.kind === 'answer' ? outcomeOf(move.line, move.failure) : null;
}

function outcomeOf(line: number, failure: string | null): Outcome {
  return { stdout: failure === null ? `${line}\n` : '', failure };
}
