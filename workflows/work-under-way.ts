/**
 * Activities of a run that can be cancelled, and what the run hears of their end. The SDK records where each promise of a
 * workflow was made, which costs more than all else that the workflow does about a stage: so few promises are made.
 */
import { CancellationScope } from '@temporalio/workflow';
import type { MachineEvent } from '../domain/pipeline/event.ts';

export interface Call<T> {
  /** Schedules the activity. */
  readonly run: () => Promise<T>;
  readonly onResult: (result: T) => MachineEvent;
  readonly onFailure: (error: unknown, isCancelled: boolean) => MachineEvent;
}

type Receive = (event: MachineEvent) => void;

/** What is cancelled at once: a scope costs as much as the other promises of a stage together. */
export class SharedScope {
  #scope: CancellationScope = new PlainScope();

  get current(): CancellationScope {
    return this.#scope;
  }

  cancel(): void {
    this.#scope.cancel();
    // What starts from here on was not meant.
    this.#scope = new PlainScope();
  }
}

/** One scope for all calls, because the run machine cancels everything that is under way, or nothing. */
export class WorkUnderWay {
  readonly #receive: Receive;
  readonly #scope: SharedScope;

  /** @param scope  for several machines whose work is cancelled together */
  constructor(receive: Receive, scope = new SharedScope()) {
    this.#receive = receive;
    this.#scope = scope;
  }

  start<T>({ run, onResult, onFailure }: Call<T>): void {
    const scope = this.#scope.current;
    void scope.run(run).then(
      (result) => this.#receive(onResult(result)),
      (error: unknown) => this.#receive(onFailure(error, scope.consideredCancelled)),
    );
  }

  cancel(): void {
    this.#scope.cancel();
  }
}

/** Hands on the promise of what it runs, without one around it: it has no timeout that would need it. */
class PlainScope extends CancellationScope {
  protected override runInContext<T>(run: () => Promise<T>): Promise<T> {
    return run();
  }
}
