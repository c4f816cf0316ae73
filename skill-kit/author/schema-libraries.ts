/**
 * `z` and `type` for plain Node. Loading ArkType costs half a second of CPU, zod a tenth; a skill that uses one is not to pay
 * for the other, and a module's exports cannot be loaded one by one. So each is a stand-in that loads its library when it is
 * first used. Bundlers take index.bundled.ts instead, where they see plain re-exports and drop what is not used.
 */
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import type { type as arkType } from 'arktype';
import type { z as zod } from 'zod';

const require = createRequire(import.meta.url);

/** The instance that `import` gives, not a second copy: authors import these libraries by themselves, too. */
function load<T>(library: string, name: string): T {
  return (require(fileURLToPath(import.meta.resolve(library))) as Record<string, T>)[name] as T;
}

/**
 * Stands for an object or function that is loaded when somebody does anything with it.
 * @param target  has the shape that decides what can be done: only a function can be called
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
