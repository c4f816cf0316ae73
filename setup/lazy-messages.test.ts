/** The messages of Temporal's API in the bundles equal the messages of the SDK, although they get their fields late. */
import { createRequire } from 'node:module';
import protobuf, { type Root, type Type } from 'protobufjs/light.js';
import { expect, test } from 'vitest';

const require = createRequire(import.meta.url);
const { addLazily } = require('./lazy-messages.cjs') as {
  readonly addLazily: (library: typeof protobuf, root: Root, json: object) => Root;
};

/** The root that the SDK makes, whose library is the one of these tests. */
const ofSdk = (): Root => {
  require('@temporalio/proto');
  return protobuf.roots['__temporal'] as Root;
};
const JSON_OF_API = ofSdk().toJSON().nested!;
const eagerRoot = (): Root => new protobuf.Root().addJSON(JSON_OF_API) as Root;
const lazyRoot = (): Root => addLazily(protobuf, new protobuf.Root(), JSON_OF_API);

function typesIn(root: { readonly nestedArray: readonly object[] }): Type[] {
  return root.nestedArray.flatMap((object) => [
    ...(object instanceof protobuf.Type ? [object] : []),
    ...('nestedArray' in object ? typesIn(object as Root) : []),
  ]);
}

const hasNoFieldsYet = (type: Type): boolean => Object.getOwnPropertyDescriptor(type, 'fields')?.get !== undefined;

/** Returns all that decides how a message is written and read. */
function describeType(type: Type): object {
  return {
    ...type.toJSON(),
    fields: type.fieldsArray.map((field) => {
      const { id, rule, type: named, resolvedType, defaultValue, repeated, map, packed, partOf } = field.resolve();
      const { _features: features } = field as unknown as { readonly _features: object };
      const [target, oneof] = [resolvedType?.fullName, partOf?.name];
      return { name: field.name, id, rule, named, target, defaultValue, repeated, map, packed, oneof, features };
    }),
    oneofs: type.oneofsArray.map(({ name, oneof }) => ({ name, oneof })),
  };
}

const byName = (types: readonly Type[]): ReadonlyMap<string, Type> =>
  new Map(types.map((type) => [type.fullName, type]));

test('no message has fields before a program looks at it, and a search for a name gives none', () => {
  const root = lazyRoot();
  const types = typesIn(root);
  expect(types.length).toBeGreaterThan(1_000);
  const without = types.filter(hasNoFieldsYet).length;
  // The messages of options have fields by extensions, which the library adds when it meets them.
  expect(types.length - without).toBeLessThan(10);
  expect(root.lookupType('temporal.api.common.v1.Payload').name).toBe('Payload');
  expect(root.lookup('temporal.api.nowhere.v1.Nothing')).toBeNull();
  expect(types.filter(hasNoFieldsYet)).toHaveLength(without);
  expect(root.lookupType('temporal.api.common.v1.Payload').get('data')).toBeInstanceOf(protobuf.Field);
  expect(types.filter(hasNoFieldsYet)).toHaveLength(without - 1);
});

test.each([
  ['before', false],
  ['after', true],
])('each message is the one of the SDK, if its fields are made %s the features of all messages', (_, featuresFirst) => {
  const [eager, lazy] = [eagerRoot(), lazyRoot()];
  const resolve = (root: Root): void =>
    (root as unknown as { _resolveFeaturesRecursive(edition: string): void })._resolveFeaturesRecursive('proto3');
  resolve(eager);
  const types = typesIn(lazy);
  const early = featuresFirst ? [] : types;
  expect(early.flatMap(({ fieldsArray }) => fieldsArray).length > 3_000).toBe(!featuresFirst);
  resolve(lazy);
  const expected = byName(typesIn(eager));
  expect(types.map(({ fullName }) => fullName)).toEqual([...expected.keys()]);
  // The last message first: none relies on an order.
  for (const type of types.toReversed())
    expect(describeType(type), type.fullName).toEqual(describeType(expected.get(type.fullName)!));
});

test('bytes that one root writes are the message for the other', () => {
  const [eager, lazy] = [eagerRoot(), lazyRoot()];
  const name = 'temporal.api.workflowservice.v1.StartWorkflowExecutionRequest';
  const message = {
    namespace: 'default',
    workflowType: { name: 'run' },
    taskQueue: { name: 'runs', kind: 1 },
    input: { payloads: [{ metadata: { encoding: Buffer.from('json/plain') }, data: Buffer.from('1') }] },
    workflowRunTimeout: { seconds: 7, nanos: 5 },
    retryPolicy: { backoffCoefficient: 1.5, nonRetryableErrorTypes: ['a', 'b'] },
  };
  const [one, other] = [eager.lookupType(name), lazy.lookupType(name)];
  const bytes = Buffer.from(other.encode(other.fromObject(message)).finish());
  expect(bytes).toEqual(Buffer.from(one.encode(one.fromObject(message)).finish()));
  expect(other.toObject(other.decode(bytes))).toEqual(one.toObject(one.decode(bytes)));
});

test('a service has the methods of the SDK, and makes the messages of a method at its first call', async () => {
  const root = lazyRoot();
  const service = root.lookupService('temporal.api.workflowservice.v1.WorkflowService');
  const [request, response] = ['GetSystemInfoRequest', 'GetSystemInfoResponse'].map((name) =>
    root.lookupType(`temporal.api.workflowservice.v1.${name}`),
  ) as [Type, Type];
  const called: string[] = [];
  const rpc = service.create((method, bytes, callback) => {
    called.push(`${method.name} ${bytes.length}`);
    callback(null, response.encode({ serverVersion: '1.2.3' }).finish());
  }) as unknown as Record<string, (message: object) => Promise<object>>;
  expect([request, response].every(hasNoFieldsYet)).toBe(true);
  expect(
    service.methodsArray.filter(({ name }) => typeof rpc[name[0]!.toLowerCase() + name.slice(1)] !== 'function'),
  ).toEqual([]);
  expect(await rpc['getSystemInfo']!({})).toMatchObject({ serverVersion: '1.2.3' });
  expect(called).toEqual(['GetSystemInfo 0']);
  expect(() => rpc['getSystemInfo']!(undefined as unknown as object)).toThrow('request must be specified');
});
