// Part of the bundles of bundle-programs.mjs. The API of Temporal has a thousand kinds of messages with four thousand
// fields, and a process needs some fifty kinds. The SDK makes all fields when it loads, which takes a quarter of the CPU
// time of a short command. Here a kind gets its fields when a program first looks at them.

/** @typedef {Record<string, any>} Json */

/**
 * Does what `root.addJSON(json)` does, but leaves the fields of messages and what services need of them for later.
 * @param {any} $protobuf the library @param {any} root @param {Json} json @returns {any} the root
 */
function addLazily($protobuf, root, json) {
  root.addJSON(withoutFields(json));
  postponeBelow($protobuf, root, json);
  return root;
}

/**
 * Does what `service.create(...)` does, but leaves the messages of a method for its first call.
 * @param {any} $protobuf @param {any} service @param {any[]} args
 */
function createService($protobuf, service, args) {
  const made = new $protobuf.rpc.Service(...args);
  const { rpcCall } = $protobuf.rpc.Service.prototype;
  for (const method of service.methodsArray)
    made[$protobuf.util.lcFirst(method.name).replace(/[^$\w_]/g, '')] = function (
      /** @type {any} */ request,
      /** @type {any} */ callback,
    ) {
      const { resolvedRequestType, resolvedResponseType } = method.resolve();
      return rpcCall.call(this, method, resolvedRequestType.ctor, resolvedResponseType.ctor, request, callback);
    };
  return made;
}

/** @param {Json} nested @returns {Json} */
function withoutFields(nested) {
  /** @type {Json} */
  const made = {};
  for (const [name, entry] of Object.entries(nested)) {
    made[name] = { ...entry };
    if (entry.nested !== undefined) made[name].nested = withoutFields(entry.nested);
    if (entry.fields === undefined) continue;
    made[name].fields = {};
    delete made[name].oneofs;
  }
  return made;
}

/** @param {any} $protobuf @param {any} parent @param {Json} nested */
function postponeBelow($protobuf, parent, nested) {
  for (const [name, entry] of Object.entries(nested)) {
    const object = parent.nested[name];
    if (entry.nested !== undefined) postponeBelow($protobuf, object, entry.nested);
    if (entry.fields !== undefined) postpone($protobuf, object, entry);
    if (entry.methods !== undefined)
      object.create = (/** @type {any[]} */ ...args) => createService($protobuf, object, args);
  }
}

/** @param {any} $protobuf @param {any} type without fields of its own @param {Json} entry */
function postpone($protobuf, type, { fields, oneofs = {} }) {
  /** @type {{ edition: string } | null} the call that makes features, if it came before the fields */
  let features = null;
  const add = () => {
    for (const name of OWN) delete type[name];
    Object.assign(type, { fields: {}, oneofs: undefined });
    for (const [name, field] of Object.entries(fields))
      type.add((field.keyType === undefined ? $protobuf.Field : $protobuf.MapField).fromJSON(name, field));
    for (const [name, oneof] of Object.entries(oneofs)) type.add($protobuf.OneOf.fromJSON(name, oneof));
    Object.assign(type.fields, extensions);
    if (features === null) return;
    for (const oneof of type.oneofsArray) oneof._resolveFeatures(features.edition);
    for (const field of type.fieldsArray) field._resolveFeatures(features.edition);
  };
  const extensions = type.fields;
  Object.defineProperties(type, {
    fields: property(() => (add(), type.fields)),
    oneofs: property(() => (add(), type.oneofs)),
    // A search for a name passes many messages, which need no fields for it.
    get: property(() => (/** @type {string} */ name) => {
      if (!Object.hasOwn(fields, name) && !Object.hasOwn(oneofs, name) && !Object.hasOwn(extensions, name))
        return $protobuf.Namespace.prototype.get.call(type, name);
      add();
      return type.get(name);
    }),
    _resolveFeaturesRecursive: property(() => (/** @type {string} */ edition) => {
      if (!type._needsRecursiveFeatureResolution) return type;
      features = { edition: type._edition || edition };
      return $protobuf.Namespace.prototype._resolveFeaturesRecursive.call(type, edition);
    }),
  });
}

const OWN = ['fields', 'oneofs', 'get', '_resolveFeaturesRecursive'];

/** @param {() => unknown} get */
function property(get) {
  return { get, configurable: true, enumerable: false };
}

module.exports = { addLazily };
