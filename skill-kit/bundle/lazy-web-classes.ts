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
    // Whether one class extends another is told by prototypes.
    prototype: { get: () => real().prototype },
    [Symbol.hasInstance]: { value: (value: unknown) => real()[Symbol.hasInstance](value) },
  });
}

export const FormData = createLazyClass('FormData');
export const Headers = createLazyClass('Headers');
export const Request = createLazyClass('Request');
export const Response = createLazyClass('Response');

const STAND_INS: Readonly<Record<Name, object>> = { FormData, Headers, Request, Response };

/** Whether a class that is called so is the one that a stand-in stands for. */
export function isStoodInFor(name: string, found: unknown): boolean {
  return Object.hasOwn(STAND_INS, name) && found === globalThis[name as Name];
}
