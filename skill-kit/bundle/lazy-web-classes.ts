/**
 * Stand-ins for classes of the web that ArkType compares values with. Node loads what is behind the real ones (its HTTP
 * client, about 20 ms of CPU) when they are first named; these name them when there is a value to compare.
 */
type Name = 'FormData' | 'Headers' | 'Request' | 'Response';
interface Class {
  readonly prototype: object;
  [Symbol.hasInstance](value: unknown): boolean;
}

function createLazyClass(name: Name): object {
  const real = (): Class => globalThis[name];
  return Object.defineProperties(() => undefined, {
    name: { value: name },
    // ArkType compares prototypes to tell whether one class extends another.
    prototype: { get: () => real().prototype },
    [Symbol.hasInstance]: { value: (value: unknown) => real()[Symbol.hasInstance](value) },
  });
}

export const FormData = createLazyClass('FormData');
export const Headers = createLazyClass('Headers');
export const Request = createLazyClass('Request');
export const Response = createLazyClass('Response');

const STAND_INS: Readonly<Record<Name, object>> = { FormData, Headers, Request, Response };

/** Tells whether `found` is the global class of this name, and this file exports a lazy class for it. */
export function isStoodInFor(name: string, found: unknown): boolean {
  return Object.hasOwn(STAND_INS, name) && found === globalThis[name as Name];
}
