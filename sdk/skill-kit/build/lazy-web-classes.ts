/**
 * Stand-ins for classes of the web that ArkType compares values with. Node loads what is behind the real ones (its HTTP
 * client, about 20 ms of CPU) when they are first named; these name them when there is a value to compare.
 */
function standIn(name: 'FormData' | 'Headers' | 'Request' | 'Response'): object {
  const real = (): { readonly prototype: object; [Symbol.hasInstance](value: unknown): boolean } => globalThis[name];
  return Object.defineProperties(() => undefined, {
    name: { value: name },
    // Whether one class extends another is told by prototypes.
    prototype: { get: () => real().prototype },
    [Symbol.hasInstance]: { value: (value: unknown) => real()[Symbol.hasInstance](value) },
  });
}

export const FormData = standIn('FormData');
export const Headers = standIn('Headers');
export const Request = standIn('Request');
export const Response = standIn('Response');
