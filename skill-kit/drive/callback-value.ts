/** Checks the results of callbacks that must return synchronously. */
import type { ReferenceLoader, TopicConfig } from '../../domain/step-machine/definition.ts';

/**
 * A callback that is synchronous by contract may have been written `async`; its promise would be taken for the value.
 * @throws {Error} for a promise
 */
export function requireSynchronous<T>(value: T, where: string): T {
  if (typeof value !== 'object' || value === null || !('then' in value) || typeof value.then !== 'function')
    return value;
  void Promise.resolve(value).catch(() => undefined);
  throw new Error(`${where} returned a promise; it must be synchronous. Do slow work in the step's action.`);
}

/** @throws {Error} when the topic's callback gives no text, and what it throws */
export function topicContent(
  topics: Readonly<Record<string, TopicConfig>>,
  name: string,
  refs: ReferenceLoader,
): string {
  const content: unknown = requireSynchronous<unknown>(topics[name]!.content({ refs }), `topic "${name}": content`);
  if (typeof content === 'string') return content;
  throw new Error(
    `topic "${name}": content returned ${content === null ? 'null' : typeof content}; it must return a string.`,
  );
}
