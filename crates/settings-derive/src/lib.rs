//! The derive `Settings`: of one struct its table of keys, its reading and its showing.
//!
//! The comment of the struct is the text of the table, that of a field the text of its key. So a key is written once:
//!
//! ```text
//! /// Limits of the whole process.
//! #[derive(Debug, Clone, Settings)]
//! #[settings(limits, at = "limits")]
//! pub struct ProcessLimits {
//!     /// Elements in flight.
//!     #[key(count(1, 1_000_000), default = "20000")]
//!     pub in_flight: u32,
//! }
//! ```
//!
//! This makes the module `limits` with the constant `IN_FLIGHT` and the `TABLE`, `Settings::of` and `Settings::shown`.
//!
//! `#[settings(MODULE, at = "PATH")]` may have
//! - `help = TEXT`, in place of the comment; `offered = GROUPS`, keys of others behind its own
//! - `based`: a function `over` reads what is written, and takes the rest from another value of the struct
//! - `hidden`: nothing of it is shown
//!
//! `#[key(KIND)]` may have
//! - `default = TEXT`, `required`; `name = TEXT`, `help = TEXT` in place of the field's
//! - `words = LIST` in place of the kind: values of another type that have words
//! - `same = KEY` in place of the kind: a key that others have too
//! - `read = FUNCTION`, of the section and the key; `show = FUNCTION`, of the field, `None` for nothing; `hidden`
//! - `later = VALUE`: the code around reads the key, and replaces this value
//! - `elsewhere`: the code around reads the key; the field is `()`
//!
//! `#[settings]` on a field is for a value without a key of the same name:
//! - `keys(A, B)`: the keys that it is made of; `read = FUNCTION`, of the section, or `later = VALUE`
//! - `has = KEY`: whether that key is written
//! - `group = KEYS`: the keys of another such struct, which the field is; `read = FUNCTION` in place of its `of`
//! - `flatten`: shown with the fields of the struct; else it is not shown

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Data, DeriveInput, Error, Expr, ExprLit, Field, Fields, Lit, Meta, Result, Token, parse_macro_input,
};

/// Makes the table, `of` and `shown` of a struct.
#[proc_macro_derive(Settings, attributes(settings, key))]
pub fn settings(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand(&input).unwrap_or_else(Error::into_compile_error).into()
}

/// The arguments of an attribute.
#[derive(Default)]
struct Args {
    bare: Vec<Expr>,
    named: Vec<(Ident, Expr)>,
}

impl Args {
    /// Reads the arguments of the attribute of this name, if it is there.
    fn of(attributes: &[Attribute], name: &str) -> Result<Option<Args>> {
        let Some(attribute) = attributes.iter().find(|attribute| attribute.path().is_ident(name)) else {
            return Ok(None);
        };
        let mut args = Args::default();
        if matches!(attribute.meta, Meta::List(_)) {
            attribute.parse_args_with(|input: syn::parse::ParseStream<'_>| {
                while !input.is_empty() {
                    if input.peek(syn::Ident) && input.peek2(Token![=]) {
                        let name = input.parse()?;
                        input.parse::<Token![=]>()?;
                        args.named.push((name, input.parse()?));
                    } else {
                        args.bare.push(input.parse()?)
                    }
                    if !input.is_empty() {
                        input.parse::<Token![,]>()?;
                    }
                }
                Ok(())
            })?;
        }
        Ok(Some(args))
    }

    fn get(&self, name: &str) -> Option<&Expr> {
        self.named.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    fn text(&self, name: &str) -> Option<String> {
        text(self.get(name)?)
    }

    fn is(&self, word: &str) -> bool {
        self.bare.iter().any(|expr| matches!(expr, Expr::Path(path) if path.path.is_ident(word)))
    }

    /// Returns the arguments of `NAME(...)`.
    fn call(&self, name: &str) -> Punctuated<Expr, Token![,]> {
        let calls = self.bare.iter().filter_map(|expr| match expr {
            Expr::Call(call) if matches!(&*call.func, Expr::Path(path) if path.path.is_ident(name)) => Some(&call.args),
            _ => None,
        });
        calls.flatten().cloned().collect()
    }
}

/// Returns the text of a literal.
fn text(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
        _ => None,
    }
}

/// Returns the comment as one line.
fn comment(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => Some(text(&pair.value)?.trim().to_owned()),
        _ => None,
    });
    lines.collect::<Vec<_>>().join(" ")
}

/// The parts that the fields add, in their order.
#[derive(Default)]
struct Parts {
    constants: Vec<TokenStream>,
    /// Lists of keys.
    own: Vec<TokenStream>,
    reads: Vec<TokenStream>,
    bases: Vec<TokenStream>,
    shows: Vec<TokenStream>,
    /// Uses of fields that have no value.
    elsewhere: Vec<TokenStream>,
}

impl Parts {
    fn key(&mut self, module: &Expr, field: &Field, args: &Args) -> Result<()> {
        let ident = &field.ident;
        let name = args.text("name").unwrap_or_else(|| ident.as_ref().map(Ident::to_string).unwrap_or_default());
        let constant = format_ident!("{}", name.to_uppercase());
        let words = args.get("words");
        let key = match (args.get("same"), words, args.bare.first()) {
            (Some(same), ..) => quote!(#same),
            (None, None, None) => return Err(Error::new_spanned(field, "the key has no kind")),
            (None, words, kind) => {
                let kind = words.map_or_else(|| quote!(#kind), |words| quote!(word::<#words>()));
                let default = args.get("default").map_or_else(|| quote!(None), |text| quote!(Some(#text)));
                let required = args.is("required");
                let help = args.text("help").unwrap_or_else(|| comment(&field.attrs));
                quote!(Key { name: #name, kind: #kind, default: #default, required: #required, help: #help })
            }
        };
        let before = Args::of(&field.attrs, "settings")?.unwrap_or_default().call("keys");
        self.own.extend(before.into_iter().map(|key| quote!(&[#key])));
        self.constants.push(quote!(pub const #constant: Key = #key;));
        self.own.push(quote!(&[#constant]));
        let key = quote!(#module::#constant);
        let read = match (args.get("read"), words) {
            _ if args.is("elsewhere") => quote!(()),
            _ if args.get("later").is_some() => args.get("later").map(|later| quote!(#later)).unwrap_or_default(),
            (Some(read), _) => quote!(#read(section, &#key)),
            (None, Some(words)) => quote!(section.one_of::<#words>(&#key).unwrap_or(<#words>::VALUES[0].1)),
            (None, None) => quote!(Setting::take(section, &#key)),
        };
        self.reads.push(quote!(#ident: #read));
        self.bases.push(quote!(#ident: if section.has(&#key) { #read } else { Clone::clone(&base.#ident) }));
        if args.is("elsewhere") {
            self.elsewhere.push(quote!(let () = self.#ident;));
        } else if !args.is("hidden") {
            let shown = match (args.get("show"), words) {
                (Some(show), _) => quote!(#show(&self.#ident)),
                (None, Some(words)) => quote!(Some(<#words>::text(self.#ident).into())),
                (None, None) => quote!(Setting::show(&self.#ident, &#key)),
            };
            self.shows.push(quote!(shown.extend(#shown.map(|value| (#key.name.to_owned(), value)));));
        }
        Ok(())
    }

    fn value(&mut self, field: &Field, args: &Args) {
        let ident = &field.ident;
        self.own.extend(args.call("keys").into_iter().map(|key| quote!(&[#key])));
        let group = args.get("group");
        self.own.extend(group.map(|keys| quote!(#keys)));
        let read = match (args.get("read"), args.get("has"), args.get("later")) {
            (Some(read), ..) => quote!(#read(section)),
            (None, Some(key), _) => quote!(section.has(&#key)),
            (None, None, Some(later)) => quote!(#later),
            (None, None, None) => quote!(Settings::of(section)),
        };
        self.reads.push(quote!(#ident: #read));
        self.bases.push(quote!(#ident: Clone::clone(&base.#ident)));
        if args.is("flatten") {
            self.shows.push(quote!(shown.extend(fields(&self.#ident));));
        }
    }
}

fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let name = &input.ident;
    let vis = &input.vis;
    let all = Args::of(&input.attrs, "settings")?.unwrap_or_default();
    let (Data::Struct(data), Some(module), Some(path)) = (&input.data, all.bare.first(), all.text("at")) else {
        return Err(Error::new_spanned(input, "write `#[settings(MODULE, at = \"PATH\")]` before a struct"));
    };
    let Fields::Named(fields) = &data.fields else {
        return Err(Error::new_spanned(input, "the fields need names"));
    };
    let mut parts = Parts::default();
    for field in &fields.named {
        match Args::of(&field.attrs, "key")? {
            Some(args) => parts.key(module, field, &args)?,
            None => parts.value(field, &Args::of(&field.attrs, "settings")?.unwrap_or_default()),
        }
    }
    let Parts { constants, own, reads, bases, shows, elsewhere } = parts;
    let shows = if all.is("hidden") { elsewhere } else { shows };
    let help = all.text("help").unwrap_or_else(|| comment(&input.attrs));
    let offered = all.get("offered").map_or_else(|| quote!(&[]), |offered| quote!(#offered));
    let over = all.is("based").then(|| {
        quote! {
            impl #name {
                /// Reads the keys that are written, and takes the rest from `base`.
                #vis fn over(section: &Section<'_>, base: &#name) -> #name {
                    #name { #(#bases),* }
                }
            }
        }
    });
    Ok(quote! {
        #[allow(missing_docs, reason = "the text of a table and of a key is their own")]
        #vis mod #module {
            #[allow(unused_imports, reason = "not every table needs every helper, or the file around")]
            use {super::*, ::delaybridge_settings::keys::*};
            #(#constants)*
            const LISTS: &[&[Key]] = &[#(#own),*];
            pub const OWN: &[Key] = &joined::<{ total(LISTS) }>(LISTS);
            pub static TABLE: Table = Table { path: #path, help: #help, own: OWN, offered: #offered };
        }

        const _: () = {
            #[allow(unused_imports, reason = "not every struct needs all of them")]
            use ::delaybridge_settings::{
                Setting, Settings, keys::{Key, Table}, reader::Section, shown::{Map, Value, fields},
                words::{Serialize, Serializer, Words as _},
            };

            impl Settings for #name {
                const TABLE: &'static Table = &#module::TABLE;

                fn of(section: &Section<'_>) -> #name {
                    #name { #(#reads),* }
                }

                fn shown(&self) -> Map<String, Value> {
                    #[allow(unused_mut, reason = "not every table has a key that is shown")]
                    let mut shown = Map::new();
                    #(#shows)*
                    shown
                }
            }

            #over

            impl Setting for #name {
                fn read(section: &Section<'_>, key: &Key) -> Option<#name> {
                    section.opt_section(key).map(|section| <#name as Settings>::of(&section))
                }

                fn take(section: &Section<'_>, key: &Key) -> #name {
                    <#name as Settings>::of(&section.section(key))
                }

                fn show(&self, _key: &Key) -> Option<Value> {
                    Some(Settings::shown(self).into())
                }
            }

            impl Serialize for #name {
                fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    Settings::shown(self).serialize(serializer)
                }
            }
        };
    })
}
