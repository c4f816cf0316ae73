/** Sub-skills that a session has called: each is a separate session, a child workflow, whose end is an event. */
import { CancellationScope, startChild } from '@temporalio/workflow';
import type { ChildSession, SessionRequest } from '../../activities/contract-session.ts';
import type { SessionEventBody } from '../../domain/step-machine/event.ts';
import { SESSION_WORKFLOW_TYPE } from '../messages.ts';
import { summaryOf } from '../summary.ts';

export class SessionChildren {
  #sessions: readonly ChildSession[] = [];
  readonly #scopes = new Map<string, CancellationScope>();
  readonly #begun = new Set<string>();
  readonly #receive: (event: SessionEventBody) => Promise<void>;
  readonly #asks: (cursor: number, child: ChildSession) => void;

  /**
   * @param receive  takes the event about the end; resolves when the session has processed it
   * @param asks  is called when the session of a sub-skill accepts answers
   */
  constructor(
    receive: (event: SessionEventBody) => Promise<void>,
    asks: (cursor: number, child: ChildSession) => void,
  ) {
    this.#receive = receive;
    this.#asks = asks;
  }

  get isRunning(): boolean {
    return this.#scopes.size > 0;
  }

  /**
   * In the order of the calls. Each stays until the session has processed its end, so that a client that waits for the
   * end can see it.
   */
  get sessions(): readonly ChildSession[] {
    return this.#sessions;
  }

  /** A session that accepts answers. */
  get begun(): ChildSession | null {
    return this.#sessions.find(({ session }) => this.#begun.has(session)) ?? null;
  }

  call(child: ChildSession, cursor: number, request: SessionRequest, summary: string): void {
    const scope = new CancellationScope();
    this.#scopes.set(child.session, scope);
    this.#sessions = [...this.#sessions, child];
    scope
      .run(() => this.#run(child, cursor, request, summary))
      .then(
        (event) => this.#returned(child, event),
        (error: unknown) => {
          const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
          const subskill = request.path?.at(-1);
          const message = `the sub-skill "${subskill}" (session ${child.session}) did not end well: ${cause instanceof Error ? cause.message : String(cause)}`;
          this.#returned(child, { type: 'threw', cursor, error: { name: 'Error', message } });
        },
      );
  }

  /** All of them. */
  cancel(): void {
    for (const scope of this.#scopes.values()) scope.cancel();
  }

  async #run(child: ChildSession, cursor: number, request: SessionRequest, summary: string): Promise<SessionEventBody> {
    const handle = await startChild(SESSION_WORKFLOW_TYPE, {
      workflowId: child.session,
      args: [request],
      parentClosePolicy: 'REQUEST_CANCEL',
      cancellationType: 'WAIT_CANCELLATION_COMPLETED',
      staticSummary: summaryOf(summary),
    });
    this.#begun.add(child.session);
    this.#asks(cursor, child);
    const { finalOutput } = (await handle.result()) as { readonly finalOutput: unknown };
    return { type: 'child-ended', cursor, finalOutput };
  }

  #returned(child: ChildSession, event: SessionEventBody): void {
    this.#scopes.delete(child.session);
    this.#begun.delete(child.session);
    void this.#receive(event).then(
      () => (this.#sessions = this.#sessions.filter(({ session }) => session !== child.session)),
    );
  }
}
