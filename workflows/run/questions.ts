/**
 * The questions of a run: which stages ask, until when, and which answer counts. The first answer with valid fields
 * wins. The same answer sent again gets the same receipt, and any other answer is refused with the answer that won.
 */
import { CancellationScope, isCancellation, sleep } from '@temporalio/workflow';
import type {
  AskCall,
  ApprovalCall,
  CheckedRejection,
  RecordedApproval,
  RejectionCall,
} from '../../activities/contract.ts';
import type { Command } from '../../domain/pipeline/command.ts';
import type { MachineEvent } from '../../domain/pipeline/event.ts';
import type { MachineStage } from '../../domain/pipeline/machine-plan.ts';
import { type FieldValues, nameAnswerer } from '../../domain/run/approval-answer.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { reasonOf } from '../activity-outcome.ts';
import { workflowFailure } from '../failure.ts';
import type { AnswerReceipt, AnswerRequest } from './answer-request.ts';
import { selectUpstream } from './stage-call.ts';

export interface QuestionIo {
  /** Records the question for readers; the run loop adds the other fields of the call. */
  ask(call: Omit<AskCall, 'runId' | 'events'>): Promise<void>;
  record(call: Omit<ApprovalCall, 'runId'>): Promise<RecordedApproval>;
  check(call: Omit<RejectionCall, 'runId'>): Promise<CheckedRejection>;
  receive(event: MachineEvent): void;
  /** The name of a stage for people; for a stage of an item, with the item. */
  nameOf(stageId: string): string;
}

interface Question {
  readonly stage: MachineStage;
  readonly attempt: number;
  /** The scope of its timer. */
  readonly scope: CancellationScope;
  /** Resolves when the answer that is being checked has won or was refused. */
  deciding: Promise<void>;
}

interface TakenDecision {
  readonly request: AnswerRequest | null;
  readonly receipt: AnswerReceipt;
}

export class Questions {
  readonly #io: QuestionIo;
  readonly #open = new Map<string, Question>();
  /** The last answer of each stage. */
  readonly #decided = new Map<string, TakenDecision>();

  constructor(io: QuestionIo) {
    this.#io = io;
  }

  open(stage: MachineStage, { attempt, upstream }: Extract<Command, { type: 'ask' }>): void {
    const question: Question = { stage, attempt, scope: new CancellationScope(), deciding: Promise.resolve() };
    this.#open.set(stage.id, question);
    this.#decided.delete(stage.id);
    const { deadline } = stage;
    const deadlineAtMs = deadline === null ? null : Date.now() + deadline.afterMs;
    const taken = stage.takes.length === 0 ? {} : { upstream: selectUpstream(stage, upstream) };
    this.#io
      .ask({ stage: stage.id, attempt, deadlineAtMs, ...taken })
      .catch((error: unknown) => this.#fail(question, error));
    if (deadline === null) return;
    question.scope
      .run(() => sleep(deadline.afterMs, { summary: `deadline of ${this.#io.nameOf(stage.id)}` }))
      .then(
        () => this.#decide(question, null),
        (error: unknown) => {
          if (!isCancellation(error)) throw error;
        },
      )
      // It was answered in the meantime, was withdrawn, or its answer cannot be recorded. The machine learns of each in
      // another way.
      .catch(() => undefined);
  }

  withdraw(stageId: string): void {
    this.#close(stageId);
  }

  /** @returns why no answer is accepted now, or null */
  problem(stageId: string): string | null {
    if (this.#open.has(stageId) || this.#decided.has(stageId)) return null;
    const open = [...this.#open.keys()];
    const name = JSON.stringify(stageId.slice(0, 80));
    return `no stage ${name} of this run waits for an answer${open.length === 0 ? '' : `; waiting: ${open.slice(0, 8).join(', ')}`}`;
  }

  /** @throws ApplicationFailure `call/refused` */
  async answer(request: AnswerRequest): Promise<AnswerReceipt> {
    for (;;) {
      const decided = this.#decided.get(request.stage);
      if (decided !== undefined) return receiptFor(request, decided);
      const question = this.#open.get(request.stage);
      if (question === undefined) throw workflowFailure('call/refused', this.problem(request.stage) ?? 'withdrawn');
      const before = question.deciding;
      await before;
      // Another answer may have had its turn in the meantime.
      if (question.deciding !== before || this.#open.get(request.stage) !== question) continue;
      return await this.#decide(question, request);
    }
  }

  /** @param request  null: the deadline has passed */
  async #decide(question: Question, request: AnswerRequest | null): Promise<AnswerReceipt> {
    let settle = (): void => undefined;
    const before = question.deciding;
    question.deciding = new Promise((resolve) => (settle = resolve));
    try {
      await before;
      return await this.#commit(question, request);
    } finally {
      settle();
    }
  }

  async #commit(question: Question, request: AnswerRequest | null): Promise<AnswerReceipt> {
    const { stage, attempt } = question;
    if (this.#open.get(stage.id) !== question) throw this.#withdrawn(stage.id);
    const then = request?.decision ?? stage.deadline?.answer ?? 'fail';
    const atMs = Date.now();
    const name = this.#io.nameOf(stage.id);
    let receipt: AnswerReceipt = {
      stage: name,
      attempt,
      decision: then === 'approve' ? 'approve' : 'reject',
      by: request?.by === undefined ? null : sanitizeLine(request.by),
      verified: false,
      comment: request?.comment === undefined ? null : sanitizeLine(request.comment),
      at: new Date(atMs).toISOString(),
    };
    const { by, comment } = receipt;
    const source = { ...(by === null ? {} : { by }), ...(comment === null ? {} : { comment }) };
    const event = { type: 'answered', stageId: stage.id, attempt } as const;
    if (then === 'approve') {
      const fields = request?.fields ?? {};
      const call = { stage: stage.id, attempt, by, comment, timedOut: request === null, fields, atMs };
      const { verified, ...output } = await this.#kept(this.#io.record(call), question, request);
      if (this.#open.get(stage.id) !== question) throw this.#withdrawn(stage.id);
      receipt = { ...receipt, verified: verified === true };
      this.#settle(question, { request, receipt });
      const answer = {
        ...source,
        ...showProof(receipt),
        atMs,
        outcome: 'succeeded',
        outputs: { output, outputs: {} },
      } as const;
      this.#io.receive({ ...event, answer });
    } else {
      const given = request?.fields ?? {};
      const said: { fields?: FieldValues } = {};
      const hasFields = Object.keys(given).length > 0;
      // A deadline has no fields and no proof.
      if (hasFields || (request !== null && stage.checksAnswers === true)) {
        const signed = stage.checksAnswers === true ? { by, comment } : {};
        const call = { stage: stage.id, attempt, ...signed, fields: given };
        const { fields, verified } = await this.#kept(this.#io.check(call), question, request);
        if (hasFields) said.fields = fields;
        if (this.#open.get(stage.id) !== question) throw this.#withdrawn(stage.id);
        // The answer counts from now on, and the log gets the same time.
        receipt = { ...receipt, verified: verified === true, at: new Date(Date.now()).toISOString() };
      }
      this.#settle(question, { request, receipt });
      const failure = { ...describeRejection(then, receipt, said.fields, request === null), stderrTail: '' };
      this.#io.receive({ ...event, answer: { ...source, ...showProof(receipt), ...said, outcome: 'failed', failure } });
    }
    return receipt;
  }

  /**
   * Returns the result of an activity that checks or records an answer. If it fails, the sender of the answer gets the
   * failure.
   */
  async #kept<T>(call: Promise<T>, question: Question, request: AnswerRequest | null): Promise<T> {
    try {
      return await call;
    } catch (error) {
      // The answer of a deadline has no sender.
      if (request === null) this.#fail(question, error);
      const { code, message } = reasonOf(error);
      throw workflowFailure(code, message);
    }
  }

  /** Fails a question that cannot be asked, or whose answer cannot be recorded. */
  #fail({ stage, attempt }: Question, error: unknown): void {
    if (this.#open.get(stage.id)?.attempt !== attempt) return;
    this.#close(stage.id);
    const failure = { ...reasonOf(error), stderrTail: '' };
    this.#io.receive({ type: 'answered', stageId: stage.id, attempt, answer: { outcome: 'failed', failure } });
  }

  #settle({ stage }: Question, decided: TakenDecision): void {
    this.#close(stage.id);
    this.#decided.set(stage.id, decided);
  }

  #close(stageId: string): void {
    this.#open.get(stageId)?.scope.cancel();
    this.#open.delete(stageId);
  }

  #withdrawn(stageId: string): Error {
    return workflowFailure('call/refused', this.problem(stageId) ?? `stage ${stageId} has already been answered`);
  }
}

function receiptFor(request: AnswerRequest, { request: stands, receipt }: TakenDecision): AnswerReceipt {
  if (stands !== null && canonical(stands) === canonical(request)) return receipt;
  const { decision, at, stage } = receipt;
  const done = decision === 'approve' ? 'approved' : 'rejected';
  const who = stands === null ? 'by its deadline' : nameAnswerer(receipt).trim();
  throw workflowFailure(
    'call/refused',
    `stage ${stage} was ${[done, who, `at ${at}`].filter(Boolean).join(' ')} already`,
  );
}

function showProof({ verified }: AnswerReceipt): { readonly verified?: true } {
  return verified ? { verified } : {};
}

function canonical({ decision, by, comment, fields }: AnswerRequest): string {
  const entries = Object.entries(fields ?? {}).sort(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify([decision, by ?? null, comment ?? null, entries]);
}

function describeRejection(
  then: 'reject' | 'fail',
  receipt: AnswerReceipt,
  fields: FieldValues | undefined,
  timedOut: boolean,
): { readonly code: 'stage/rejected' | 'stage/no-answer'; readonly message: string } {
  const { stage, comment, at } = receipt;
  if (timedOut && then === 'fail')
    return { code: 'stage/no-answer', message: `stage ${stage} got no answer before its deadline (${at})` };
  if (timedOut) return { code: 'stage/rejected', message: `stage ${stage} was rejected at its deadline (${at})` };
  const said = Object.entries(fields ?? {}).map(([name, value]) => `${name}=${sanitizeLine(String(value))}`);
  const who = nameAnswerer(receipt);
  const values = said.length === 0 ? '' : ` (${said.join(', ')})`;
  return {
    code: 'stage/rejected',
    message: `stage ${stage} was rejected${who}${values}${comment === null ? '' : `: ${comment}`}`,
  };
}
