/**
 * Activities of a run that can be cancelled, and the events of their ends. The SDK records where each promise of a
 * workflow was made. That costs more than all other work of the workflow for a stage, so this file makes few promises.
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

/** Calls that are cancelled together. A scope costs as much as the other promises of a stage together. */
export class SharedScope {
  #scope: CancellationScope = new PlainScope();

  get current(): CancellationScope {
    return this.#scope;
  }

  cancel(): void {
    this.#scope.cancel();
    // The cancel does not reach calls that start later.
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

/** Returns the promise of its function, without another promise around it: it has no timeout that needs one. */
class PlainScope extends CancellationScope {
  protected override runInContext<T>(run: () => Promise<T>): Promise<T> {
    return run();
  }
}
