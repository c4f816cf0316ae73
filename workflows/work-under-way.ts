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

export interface WorkUnderWay {
  /** `key`: an exec key, or the name of a VM. */
  start<T>(key: string, call: Call<T>): void;
  /** Of these keys; everything that is under way has one of them. */
  cancel(keys: readonly string[]): void;
}

type Receive = (event: MachineEvent) => void;

/** Behaviours 0 and 1: a scope for each call. When a run hears of an end depends on how many promises are in between, so they stay. */
export class ScopeForEachCall implements WorkUnderWay {
  readonly #receive: Receive;
  readonly #scopes = new Map<string, CancellationScope>();

  constructor(receive: Receive) {
    this.#receive = receive;
  }

  start<T>(key: string, { run, onResult, onFailure }: Call<T>): void {
    const scope = new CancellationScope();
    this.#scopes.set(key, scope);
    const end = scope.run(run).then(onResult, (error: unknown) => onFailure(error, scope.consideredCancelled));
    void end.then((event) => {
      this.#scopes.delete(key);
      this.#receive(event);
    });
  }

  cancel(keys: readonly string[]): void {
    for (const key of keys) this.#scopes.get(key)?.cancel();
  }
}

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

/** From behaviour 2 on: one scope for all, because the run machine cancels all that is under way, or nothing. */
export class OneScope implements WorkUnderWay {
  readonly #receive: Receive;
  readonly #scope: SharedScope;

  /** @param scope  for several machines whose work is cancelled together */
  constructor(receive: Receive, scope = new SharedScope()) {
    this.#receive = receive;
    this.#scope = scope;
  }

  start<T>(_key: string, { run, onResult, onFailure }: Call<T>): void {
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
