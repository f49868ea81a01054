//! The text of the SQL: parsed, found to be one query, and made ready for planning. Knows where names stand in the text.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    ExcludeSelectItem, Expr, Ident, ObjectName, Query, Select, SelectItem, SetExpr, Statement, TableFactor, Value,
    VisitMut, VisitorMut, WildcardAdditionalOptions,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use super::SqlProblem;
use super::functions::WATERMARK;
use super::provider::{FILE, PARTITION};

/// A query, ready for planning.
pub struct Prepared {
    /// With `$watermark` as a call.
    pub statement: Statement,
    /// Whether it uses the watermark.
    pub reads_watermark: bool,
    /// Whether it names `_partition`.
    pub partition: bool,
    /// Whether it names `_file`.
    pub file: bool,
}

/// Parses the text, which must be one query.
pub fn parse(sql: &str) -> Result<Prepared, Vec<SqlProblem>> {
    let parser = Parser::new(&GenericDialect).try_with_sql(sql);
    let statements = parser.and_then(|mut parser| parser.parse_statements()).map_err(|error| vec![unparsed(&error)])?;
    let [statement] = <[Statement; 1]>::try_from(statements).map_err(|statements| {
        let message = match statements.len() {
            0 => "the SQL is empty: it must be one SELECT".to_owned(),
            n => format!("the SQL holds {n} statements: it must be one SELECT"),
        };
        vec![SqlProblem::new(message)]
    })?;
    let query = match &statement {
        Statement::Query(query) if reads_only(&query.body) => query,
        other => {
            let word = other.to_string().split_whitespace().next().unwrap_or_default().to_uppercase();
            let problem = SqlProblem::new(format!("the SQL must be one SELECT, and this is {word}"));
            return Err(vec![problem.at(locate(sql, &word))]);
        }
    };
    let names = words(sql);
    let (partition, file) = (names.contains(PARTITION), names.contains(FILE));
    let mut preparation = Preparation {
        queries: common_table_names(query),
        hidden: [(partition, PARTITION), (file, FILE)]
            .into_iter()
            .filter(|(named, _)| *named)
            .map(|(_, n)| n)
            .collect(),
        reads_watermark: false,
        problems: Vec::new(),
        sql,
    };
    let mut statement = statement;
    let _ = statement.visit(&mut preparation);
    if !preparation.problems.is_empty() {
        return Err(preparation.problems);
    }
    Ok(Prepared { statement, reads_watermark: preparation.reads_watermark, partition, file })
}

/// Line and column (from 1) of the first place where `name` stands in the SQL as a word.
pub fn locate(sql: &str, name: &str) -> Option<(u64, u64)> {
    let tokens = Tokenizer::new(&GenericDialect, sql).tokenize_with_location().ok()?;
    let found = tokens.into_iter().find(|token| match &token.token {
        Token::Word(word) => word.value.eq_ignore_ascii_case(name),
        _ => false,
    })?;
    Some((found.span.start.line, found.span.start.column))
}

fn words(sql: &str) -> BTreeSet<String> {
    let tokens = Tokenizer::new(&GenericDialect, sql).tokenize().unwrap_or_default();
    let words = tokens.into_iter().filter_map(|token| match token {
        Token::Word(word) => Some(word.value.to_lowercase()),
        _ => None,
    });
    words.collect()
}

fn reads_only(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(select) => select.into.is_none(),
        SetExpr::Query(query) => reads_only(&query.body),
        SetExpr::SetOperation { left, right, .. } => reads_only(left) && reads_only(right),
        SetExpr::Values(_) => true,
        _ => false,
    }
}

/// Names that a WITH gives, at any depth.
fn common_table_names(query: &Query) -> BTreeSet<String> {
    struct Names(BTreeSet<String>);
    impl datafusion::sql::sqlparser::ast::Visitor for Names {
        type Break = ();
        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            for common in query.with.iter().flat_map(|with| &with.cte_tables) {
                self.0.insert(common.alias.name.value.to_lowercase());
            }
            ControlFlow::Continue(())
        }
    }
    let mut names = Names(BTreeSet::new());
    let _ = datafusion::sql::sqlparser::ast::Visit::visit(query, &mut names);
    names.0
}

fn unparsed(error: &ParserError) -> SqlProblem {
    let text = match error {
        ParserError::TokenizerError(text) | ParserError::ParserError(text) => text.clone(),
        ParserError::RecursionLimitExceeded => "the SQL is nested too deeply".to_owned(),
    };
    let Some((message, place)) = text.split_once(" at Line: ") else { return SqlProblem::new(text) };
    let place = place.split_once(", Column: ").and_then(|(line, rest)| {
        let column: String = rest.chars().take_while(char::is_ascii_digit).collect();
        Some((line.trim().parse().ok()?, column.parse().ok()?))
    });
    SqlProblem::new(message).at(place)
}

/// Turns `$watermark` into a call, and leaves `_partition` and `_file` out of `*` where one table is selected from.
struct Preparation<'a> {
    queries: BTreeSet<String>,
    hidden: Vec<&'static str>,
    reads_watermark: bool,
    problems: Vec<SqlProblem>,
    sql: &'a str,
}

impl VisitorMut for Preparation<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::Value(value) = expr else { return ControlFlow::Continue(()) };
        let Value::Placeholder(name) = &value.value else { return ControlFlow::Continue(()) };
        if name != WATERMARK {
            let place = (value.span.start.line, value.span.start.column);
            let problem = SqlProblem::new(format!("unknown parameter {name}: there is only {WATERMARK}"));
            self.problems.push(problem.at((place.0 > 0).then_some(place)));
            return ControlFlow::Continue(());
        }
        self.reads_watermark = true;
        match Parser::new(&GenericDialect).try_with_sql("\"$watermark\"()").and_then(|mut call| call.parse_expr()) {
            Ok(call) => *expr = call,
            Err(error) => self.problems.push(unparsed(&error)),
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let [from] = select.from.as_slice() else { return ControlFlow::Continue(()) };
        let TableFactor::Table { name, .. } = &from.relation else { return ControlFlow::Continue(()) };
        let one = from.joins.is_empty() && name.0.len() == 1;
        if !one || self.hidden.is_empty() || self.queries.contains(&name.to_string().to_lowercase()) {
            return ControlFlow::Continue(());
        }
        for item in &mut select.projection {
            if let SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) = item {
                exclude(options, &self.hidden);
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if !query.locks.is_empty() {
            self.problems.push(SqlProblem::new("FOR UPDATE is not allowed").at(locate(self.sql, "for")));
        }
        ControlFlow::Continue(())
    }
}

fn exclude(options: &mut WildcardAdditionalOptions, hidden: &[&str]) {
    let mut names = match options.opt_exclude.take() {
        None => Vec::new(),
        Some(ExcludeSelectItem::Single(name)) => vec![name],
        Some(ExcludeSelectItem::Multiple(names)) => names,
    };
    let except = options.opt_except.as_ref();
    for hidden in hidden {
        let stands = names.iter().any(|name| name.to_string().eq_ignore_ascii_case(hidden))
            || except.is_some_and(|except| {
                std::iter::once(&except.first_element)
                    .chain(&except.additional_elements)
                    .any(|name| name.value.eq_ignore_ascii_case(hidden))
            });
        if !stands {
            names.push(ObjectName::from(Ident::new(*hidden)));
        }
    }
    options.opt_exclude = Some(ExcludeSelectItem::Multiple(names));
}
