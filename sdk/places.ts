/**
 * Where in its source a definition was made, for whoever loads it to report mistakes. By a global name: the loader and the
 * definition may hold different copies of this file. Without a listener, which is everywhere else, it costs nothing.
 */
const LISTENER = Symbol.for('voidbox.definition-places');

/**
 * @param stack  of the call that made `made`, the caller first
 * @param stages  what was told of before and is listed in it, in the order of its source
 */
export type PlaceListener = (made: object, stack: string, stages: readonly object[]) => void;

interface ListenerGlobal {
  [LISTENER]?: PlaceListener;
}

export function listenForPlaces(listener: PlaceListener): void {
  (globalThis as ListenerGlobal)[LISTENER] = listener;
}

/** Whether this process only reads the definitions that it loads. */
export function isBeingLoaded(): boolean {
  return (globalThis as ListenerGlobal)[LISTENER] !== undefined;
}

/** @param builder  the function that the author called: frames above it are ours */
export function reportPlace(
  made: object,
  builder: (...args: never[]) => unknown,
  stages: readonly object[] = [],
): void {
  const listener = (globalThis as ListenerGlobal)[LISTENER];
  if (listener === undefined) return;
  const at: { stack?: string } = {};
  Error.captureStackTrace(at, builder);
  listener(made, at.stack ?? '', stages);
}
