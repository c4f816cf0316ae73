/**
 * `z` and `type` for plain Node. Loading ArkType costs half a second of CPU, and zod a tenth. A skill that uses one
 * must not pay for the other, and a module's exports cannot be loaded one by one. So each is a proxy that loads its
 * library on first use. Bundlers use index.bundled.ts instead, whose plain re-exports they can drop if unused.
 */
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import type { type as arkType } from 'arktype';
import type { z as zod } from 'zod';

const require = createRequire(import.meta.url);

/**
 * Returns the instance that `import` returns, because authors also import these libraries directly and a second copy
 * would not match.
 */
function load<T>(library: string, name: string): T {
  return (require(fileURLToPath(import.meta.resolve(library))) as Record<string, T>)[name] as T;
}

/**
 * Returns a proxy for an object or function that is loaded on first use.
 * @param target  has the shape that decides which operations are possible: only a function can be called
 */
function createLazily<T extends object>(target: object, make: () => T): T {
  let made: T | undefined;
  const real = (): T => (made ??= make());
  return new Proxy(target, {
    apply: (_target, _this, args) =>
      Reflect.apply(real() as (...args: unknown[]) => unknown, undefined, args) as unknown,
    get: (_target, key) => Reflect.get(real(), key) as unknown,
    has: (_target, key) => Reflect.has(real(), key),
    ownKeys: () => Reflect.ownKeys(real()),
    getOwnPropertyDescriptor(_target, key) {
      const found = Reflect.getOwnPropertyDescriptor(real(), key);
      // A proxy may not promise that its target has a property for good.
      return found && { ...found, configurable: true };
    },
  }) as T;
}

export const z: typeof zod = createLazily({}, () => load<typeof zod>('zod', 'z'));
// A method has no `prototype` of its own that the proxy would have to show.
export const type: typeof arkType = createLazily({ type() {} }.type, () => load<typeof arkType>('arktype', 'type'));
