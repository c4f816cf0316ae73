/**
 * The place in the source where a definition was made, for the loader's reports of mistakes. It uses a global name,
 * because the loader and the definition may contain different copies of this file. Only a loader listens; without a
 * listener it costs nothing.
 */
const LISTENER = Symbol.for('voidbox.definition-places');

/**
 * @param stack  of the call that made `made`, the caller first
 * @param stages  stages that were reported before and that it lists, in the order of its source
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

/** @param builder  the function that the author called: frames above it belong to Voidbox */
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
